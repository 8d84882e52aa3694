import pytest

from webgpt_jax.web.local_site import local_url, site_of


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("My Corpus", "http://my-corpus.localhost/"),
        ("wikipedia_en_all", "http://wikipedia-en-all.localhost/"),
        ("Café.d", "http://cafe-d.localhost/"),
        ("資料", "http://local.localhost/"),
        ("", "http://local.localhost/"),
        ("--..", "http://local.localhost/"),
        ("x" * 300, f"http://{'x' * 60}.localhost/"),
        ("a\ud800\0b/../c", "http://a-b-c.localhost/"),
    ],
)
def test_local_url(name: str, url: str) -> None:
    assert local_url(name) == url
    assert site_of(url) == (url[7:-1], None)


@pytest.mark.parametrize(
    ("url", "site"),
    [
        ("http://A.localhost:80/x", ("a.localhost", None)),
        ("https://a.localhost:443/x", ("a.localhost", None)),
        ("http://a.localhost:443/x", ("a.localhost", 443)),
        ("ftp://a.localhost/", ("", None)),
        ("http://[::1", ("", None)),
        ("", ("", None)),
    ],
)
def test_site_of(url: str, site: tuple[str, int | None]) -> None:
    assert site_of(url) == site
