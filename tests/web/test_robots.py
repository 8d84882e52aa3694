"""robots.txt: what its answers mean, how long they are remembered, and files made to hurt."""

from __future__ import annotations

import asyncio

import pytest

from tests.web.stub_server import PUBLIC, Request, Route, StubServer, World, reply
from webgpt_jax.env.protocol import WebError
from webgpt_jax.web.fetch import FetchConfig, LiveFetcher, Response
from webgpt_jax.web.robots import MAX_ROBOTS_BYTES, RobotsRules, _for_agent
from webgpt_jax.web.target import Target

CONFIG = FetchConfig(allow_private_hosts=True, backoff_seconds=0.01, host_requests_per_second=10_000.0)

RULES = b"""User-agent: *
Disallow: /private
Allow: /private/open
Disallow: /*.pdf$
Disallow: /search?

User-agent: otherbot
Disallow: /
"""


def kinds(routes: dict[str, Route], *paths: str, **changes: object) -> list[str]:
    """What becomes of each path in turn: "ok", or the kind of its error."""

    async def main() -> list[str]:
        outcomes = []
        async with StubServer(
            dict.fromkeys((path.partition("?")[0] for path in paths), reply(body=b"page")) | routes
        ) as server:
            live = LiveFetcher(CONFIG, **changes)
            for path in paths:
                try:
                    await live.fetch(server.url(path))
                    outcomes.append("ok")
                except WebError as error:
                    outcomes.append(error.kind)
        return outcomes

    return asyncio.run(main())


def test_rules_are_kept() -> None:
    paths = ("/", "/private/x", "/private/open", "/a.pdf", "/a.pdf?x", "/search?q=1", "/search")
    assert kinds({"/robots.txt": reply(body=RULES)}, *paths) == ["ok", "robots", "ok", "robots", "ok", "robots", "ok"]
    assert kinds({"/robots.txt": reply(body=RULES)}, "/private/x", respect_robots=False) == ["ok"]


@pytest.mark.parametrize("name", ["webgpt-jax", "WebGPT-JAX", "webgpt-jax # that is us"])
def test_rules_for_us_come_before_those_for_everybody(name: str) -> None:
    text = f"User-agent: *\nDisallow: /a\n\nUser-agent: x\nUser-agent: {name}\nDisallow: /b\n".encode()
    assert kinds({"/robots.txt": reply(body=text)}, "/a", "/b") == ["ok", "robots"]


@pytest.mark.parametrize("name", ["webgpt", "webgpt-jax-2", "jax", "otherbot", "web*"])
def test_rules_for_others_are_not_ours(name: str) -> None:
    assert kinds({"/robots.txt": reply(body=f"User-agent: {name}\nDisallow: /\n".encode())}, "/a") == ["ok"]


@pytest.mark.parametrize(
    ("robots", "outcome"),
    [
        (reply(404), "ok"),
        (reply(401), "ok"),
        (reply(403), "ok"),
        (reply(410), "ok"),
        (reply(500), "robots"),
        (reply(503, Retry_After="3600"), "robots"),
        (reply(200, b""), "ok"),
        (reply(200, b"\xff\xfe\x00nonsense\x00"), "ok"),
        (reply(200, b"<html><body>Not found</body></html>"), "ok"),
        (reply(200, b"\xef\xbb\xbfUser-agent: *\r\nDisallow: /"), "robots"),
        (reply(200, b"user-agent:*\rdisallow:/\r"), "robots"),
        (reply(302, Location="/robots.txt"), "ok"),  # in a circle: too many redirects are as good as none (RFC 9309)
        (reply(302, Location="/rules"), "robots"),
        (reply(302, Location="file:///etc/passwd"), "refused"),
        (b"SSH-2.0\r\n", "protocol"),
    ],
)
def test_what_answers_mean(robots: bytes, outcome: str) -> None:
    rules = reply(body=b"User-agent: *\nDisallow: /")
    assert kinds({"/robots.txt": robots, "/rules": rules}, "/page") == [outcome]


def test_each_redirect_needs_leave() -> None:
    routes: dict[str, Route] = {
        "/robots.txt": reply(body=b"User-agent: *\nDisallow: /private"),
        "/start": reply(302, Location="/private/page"),
        "/private/page": reply(body=b"x"),
    }
    assert kinds(routes, "/start") == ["robots"]


def test_the_guard_holds_for_robots_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world = World(monkeypatch)
        routes: dict[str, Route] = {"/robots.txt": reply(302, Location="http://127.0.0.1/"), "/": reply(body=b"x")}
        async with StubServer(routes) as server:
            world.put("public.test", server)
            with pytest.raises(WebError) as raised:
                await LiveFetcher(lookup=world.lookup).fetch("http://public.test/")
        assert raised.value.kind == "refused"
        assert set(world.connected) == {(PUBLIC, 80)}

    asyncio.run(main())


def test_one_download_serves_all_that_wait() -> None:
    async def main() -> None:
        async def slow(request: Request, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(0.05)
            writer.write(reply(body=RULES))

        async with StubServer({"/robots.txt": slow, "/a": reply(body=b"x")}) as server, LiveFetcher(CONFIG) as live:
            first, *others = [asyncio.create_task(live.fetch(server.url("/a"))) for _ in range(20)]
            await server.asked()
            first.cancel()  # whoever came first may leave; the others go on
            answers = await asyncio.gather(*others)
            assert all(isinstance(answer, Response) for answer in answers)
            await live.fetch(server.url("/a"))
            assert server.paths.count("/robots.txt") == 1

    asyncio.run(main())


def test_the_last_to_leave_ends_the_download() -> None:
    async def main() -> None:
        async def silent(request: Request, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(60)

        async with StubServer({"/robots.txt": silent}) as server, LiveFetcher(CONFIG) as live:
            tasks = [asyncio.create_task(live.fetch(server.url("/a"))) for _ in range(3)]
            await server.asked()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await server.idle()

    asyncio.run(main())


def test_rules_are_remembered_for_a_while() -> None:
    async def main(seconds: float) -> int:
        async with StubServer({"/robots.txt": reply(body=RULES), "/a": reply(body=b"x")}) as server:
            live = LiveFetcher(CONFIG, robots_seconds=seconds)
            for _ in range(3):
                await live.fetch(server.url("/a"))
            return server.paths.count("/robots.txt")

    assert asyncio.run(main(3600.0)) == 1
    assert asyncio.run(main(0.0)) == 3


def _rules_of(body: bytes) -> RobotsRules:
    """Rules in which the body has been read for http://h.test."""
    rules = RobotsRules("webgpt-jax", 3600.0)

    async def download(target: Target) -> tuple[int, bytes]:
        return 200, body

    asyncio.run(rules.check(Target("http", "h.test", 80, "/fine", ""), download))
    return rules


HOSTILE = {
    "many agents above many rules": b"".join(b"user-agent:a%d\n" % n for n in range(18_000)) + b"allow:/x\n" * 28_000,
    "many spellings of everybody": b"user-agent:*\n" * 18_000 + b"allow:/x\n" * 28_000,
    "many of our names": b"".join(b"user-agent:webgpt-jax*%d*\n" % n for n in range(9_000)) + b"allow:/x\n" * 28_000,
    "many wildcards": b"user-agent:*\ndisallow:/" + b"*a" * 250_000 + b"b",
    "many rules with wildcards": b"user-agent:*\n" + b"disallow:/*a*a*a*a*a*a*a*b\n" * 18_000,
    "many different rules": b"user-agent:*\n" + b"".join(b"disallow:/*a*z%d*\n" % n for n in range(26_000)),
    "many dollars": b"user-agent:*\n" + b"disallow:/" + b"$" * 500_000,
    "one long line": b"x" * MAX_ROBOTS_BYTES,
    "no colons": b"user agent " * 45_000,
    "many line ends": b"\r" * MAX_ROBOTS_BYTES,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_files_made_to_hurt(name: str) -> None:
    """Without care each of them hangs the program or floods its memory: the time limit of the tests would end it."""
    rules = _rules_of(HOSTILE[name][:MAX_ROBOTS_BYTES])
    target = Target("http", "h.test", 80, "/" + "a" * 7_900, "")

    async def no_download(target: Target) -> tuple[int, bytes]:
        raise AssertionError("the rules should have been remembered")

    asyncio.run(rules.check(target, no_download))


def test_a_file_that_is_too_long_is_cut() -> None:
    body = b"User-agent: *\nDisallow: /a\n" + b"#" * MAX_ROBOTS_BYTES + b"\nDisallow: /b\n"
    assert kinds({"/robots.txt": reply(body=body)}, "/a", "/b", max_bytes=1000) == ["robots", "ok"]


def test_the_memory_of_many_sites_is_bounded() -> None:
    async def main() -> None:
        rules = RobotsRules("webgpt-jax", 3600.0)

        async def download(target: Target) -> tuple[int, bytes]:
            return 200, b"#" * MAX_ROBOTS_BYTES

        for number in range(100):
            await rules.check(Target("http", f"h{number}.test", 80, "/", ""), download)
        assert len(rules._rules) < 10

    asyncio.run(main())


def test_groups_of_strangers_are_made_one() -> None:
    text = "\ufeffUser-agent: a\nUSERAGENT: B\nuser agent c\nUser-Agent: WebGPT-JAX # us\nAllow: /\nuser-agents: x\n"
    assert _for_agent(text, "webgpt-jax").splitlines() == [
        "User-agent: -",
        "User-agent: -",
        "User-agent: -",
        "User-agent: webgpt-jax",
        "Allow: /",
        "user-agents: x",
    ]
