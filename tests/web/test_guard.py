"""Which addresses are reached: the table against `ipaddress`, and every way round it that we could think of."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.web.stub_server import PUBLIC, StubServer, World, reply
from webgpt_jax.env.protocol import WebError
from webgpt_jax.web.fetch import LiveFetcher, Response
from webgpt_jax.web.guard import SPECIAL_NETWORKS, AddressRefused, Guard, GuardedResolver, special_use

# ---- the table


@pytest.mark.parametrize(
    ("address", "use"),
    [
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "unspecified"),
        ("10.0.0.0", "private"),
        ("10.255.255.255", "private"),
        ("100.63.255.255", None),
        ("100.64.0.0", "carrier-grade NAT"),
        ("100.100.100.200", "carrier-grade NAT"),
        ("100.127.255.255", "carrier-grade NAT"),
        ("100.128.0.0", None),
        ("126.255.255.255", None),
        ("127.0.0.1", "loopback"),
        ("127.255.255.255", "loopback"),
        ("128.0.0.0", None),
        ("168.63.129.15", None),
        ("168.63.129.16", "cloud-internal"),
        ("169.254.169.254", "link-local"),
        ("172.15.255.255", None),
        ("172.16.0.0", "private"),
        ("172.31.255.255", "private"),
        ("172.32.0.0", None),
        ("192.0.0.192", "protocol-assignment"),
        ("192.0.2.1", "documentation"),
        ("192.88.99.1", "6to4 relay"),
        ("192.168.1.1", "private"),
        ("198.17.255.255", None),
        ("198.19.255.255", "benchmarking"),
        ("198.51.100.1", "documentation"),
        ("203.0.113.1", "documentation"),
        ("223.255.255.255", None),
        ("224.0.0.1", "multicast"),
        ("239.255.255.255", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "reserved"),
        ("8.8.8.8", None),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("::127.0.0.1", "IPv4-compatible"),
        ("::ffff:127.0.0.1", "IPv4-mapped"),
        ("::ffff:8.8.8.8", "IPv4-mapped"),
        ("::ffff:0:127.0.0.1", "IPv4-translated"),
        ("64:ff9b::7f00:1", "NAT64"),
        ("64:ff9b:1::7f00:1", "NAT64"),
        ("100::1", "discard-only"),
        ("400::1", "reserved"),
        ("1fff:ffff::", "reserved"),
        ("2001::1", "Teredo"),
        ("2001:2::1", "protocol-assignment"),
        ("2001:1ff:ffff::", "protocol-assignment"),
        ("2001:200::1", None),
        ("2001:db8::1", "documentation"),
        ("2002:7f00:1::", "6to4"),
        ("2606:4700::1111", None),
        ("2a00:1450:4001:801::200e", None),
        ("3ffe::1", "reserved"),
        ("3fff:fff::1", "documentation"),
        ("4000::1", "reserved"),
        ("5f00::1", "segment-routing"),
        ("fc00::1", "unique-local"),
        ("fd00:ec2::254", "unique-local"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("2606:4700::1%eth0", "reserved"),
        ("febf::1", "link-local"),
        ("fec0::1", "site-local"),
        ("ff02::1", "multicast"),
    ],
)
def test_what_addresses_are_for(address: str, use: str | None) -> None:
    assert special_use(ip_address(address)) == use


def _python_calls_it_public(address: IPv4Address | IPv6Address) -> bool:
    return address.is_global and not (
        address.is_private
        or address.is_multicast
        or address.is_reserved
        or address.is_loopback
        or address.is_link_local
    )


def _check_against_python(address: IPv4Address | IPv6Address) -> None:
    if special_use(address) is None:
        assert _python_calls_it_public(address), f"{address} would be reached, and ipaddress does not call it public"


@given(st.ip_addresses())
def test_no_address_we_reach_is_special_to_python(address: IPv4Address | IPv6Address) -> None:
    _check_against_python(address)


def test_nor_any_at_the_edges_of_the_networks() -> None:
    for network, _ in SPECIAL_NETWORKS:
        most = 2**network.max_prefixlen - 1
        first, last = int(network.network_address), int(network.broadcast_address)
        for number in (first - 1, first, first + 1, last - 1, last, last + 1):
            if 0 <= number <= most:
                _check_against_python(type(network.network_address)(number))


@given(st.ip_addresses(v=4))
def test_most_public_addresses_are_reached(address: IPv4Address) -> None:
    known_differences = ("6to4 relay", "cloud-internal", "multicast", "protocol-assignment")
    if _python_calls_it_public(address):
        assert special_use(address) is None or special_use(address) in known_differences


# ---- the socket and the resolver, each by itself


@pytest.mark.parametrize("method", ["connect", "connect_ex"])
@pytest.mark.parametrize(
    ("family", "address"),
    [
        (socket.AF_INET, ("127.0.0.1", 80)),
        (socket.AF_INET, ("127.1", 80)),
        (socket.AF_INET, ("localhost", 80)),
        (socket.AF_INET, (PUBLIC, 22)),
        (socket.AF_INET6, ("::1", 80, 0, 0)),
        (socket.AF_INET6, ("::ffff:127.0.0.1", 80, 0, 0)),
    ],
)
def test_a_guarded_socket_does_not_connect(method: str, family: int, address: tuple[object, ...]) -> None:
    with (
        Guard().open_socket((family, socket.SOCK_STREAM, 0, "", address)) as guarded,
        pytest.raises(AddressRefused),
    ):
        getattr(guarded, method)(address)


def test_a_guarded_socket_is_of_the_internet() -> None:
    with pytest.raises(AddressRefused):
        Guard(allow_private=True).open_socket((socket.AF_UNIX, socket.SOCK_STREAM, 0, "", "/run/docker.sock"))


def test_blocked_networks_hold_whatever_else_is_allowed() -> None:
    guard = Guard(allow_private=True, blocked_networks=("198.51.100.0/24",))
    guard.check_address("127.0.0.1")
    with pytest.raises(AddressRefused):
        guard.check_address("198.51.100.7")
    with pytest.raises(ValueError, match="198"):
        Guard(blocked_networks=("198.51.100.0/33",))


def _resolve(*addresses: str) -> list[str]:
    async def lookup(host: str) -> list[str]:
        return list(addresses)

    async def main() -> list[str]:
        resolver = GuardedResolver(Guard(), 1.0, lookup)
        return [result["host"] for result in await resolver.resolve("name.test", 80)]

    return asyncio.run(main())


def test_the_resolver_keeps_public_answers_only() -> None:
    assert _resolve("127.0.0.1", PUBLIC, "::1", "2606:4700::1111", PUBLIC) == [PUBLIC, "2606:4700::1111"]
    with pytest.raises(AddressRefused, match=r"loopback address \(::1\)"):
        _resolve("::1")
    with pytest.raises(OSError, match="no address"):
        _resolve()


def test_a_slow_resolver_is_given_up() -> None:
    async def lookup(host: str) -> list[str]:
        await asyncio.sleep(60)
        return [PUBLIC]

    with pytest.raises(OSError, match="no answer"):
        asyncio.run(GuardedResolver(Guard(), 0.05, lookup).resolve("name.test", 80))


# ---- attacks. Every name but public.test leads to 127.0.0.1: whatever is misread gets somewhere it should not.

ATTACKS = [
    # 127.0.0.1, spelt in every way that some resolver or browser understands
    "http://127.0.0.1/",
    "https://127.0.0.1/",
    "http://127.0.0.1./",
    "http://127.1/",
    "http://127.0.1/",
    "http://2130706433/",
    "http://2130706433./",
    "http://0x7f000001/",
    "http://0X7F000001/",
    "http://0x7f.0.0.1/",
    "http://0x7f.1/",
    "http://0177.0.0.1/",
    "http://017700000001/",
    "http://000000177.0.0.1/",
    "http://127.0.0.01/",
    "http://4294967297/",
    "http://0x/",
    "http://127%2e0%2e0%2e1/",
    "http://%31%32%37.0.0.1/",
    "http://127.0.0.1%00.public.test/",
    "http://１２７.０.０.１/",
    "http://127。0。0。1/",
    "http://127．0．0．1/",
    "http://①②⑦.⓪.⓪.①/",
    "http://0/",
    "http://0.0.0.0/",
    "http://[::]/",
    "http://[::1]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[0000:0000:0000:0000:0000:0000:0000:0001]/",
    "http://[::1%25lo]/",
    "http://[::1%lo]/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::FFFF:7F00:0001]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[64:ff9b:1::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[2001:0:7f00:1::]/",
    "http://[127.0.0.1]/",
    "http://[v1.127.0.0.1]/",
    # metadata services and inner networks
    "http://169.254.169.254/latest/meta-data/",
    "http://2852039166/latest/meta-data/",
    "http://0xa9fea9fe/",
    "http://0251.0376.0251.0376/",
    "http://169.254.43518/",
    "http://[::ffff:169.254.169.254]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[2002:a9fe:a9fe::1]/",
    "http://[fd00:ec2::254]/",
    "http://[fe80::a9fe:a9fe%25eth0]/",
    "http://100.100.100.200/",
    "http://168.63.129.16/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://192.168.0.1/",
    "http://[fec0::1]/",
    "http://[fc00::1]/",
    "http://224.0.0.1/",
    "http://[ff02::1]/",
    "http://255.255.255.255/",
    "http://240.0.0.1/",
    "http://192.0.2.1/",
    "http://198.18.0.1/",
    "http://[2001:db8::1]/",
    # names
    "http://localhost/",
    "http://LOCALHOST./",
    "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/",
    "http://127.0.0.1.rebind.test/",
    "http://metadata.google.internal/",
    "http://intranet/",
    # one reader's host is another reader's user name
    "http://public.test@127.0.0.1/",
    "http://public.test:80@127.0.0.1/",
    "http://127.0.0.1@public.test/",
    "http://@public.test/",
    "http://:@public.test/",
    "http://public.test\\@127.0.0.1/",
    "http://127.0.0.1\\@public.test/",
    "http://127.0.0.1\\.public.test/",
    "http://127.0.0.1#@public.test/",
    "http://127.0.0.1?@public.test/",
    "http://127.0.0.1;@public.test/",
    "http://public.test%40127.0.0.1/",
    "http://127.0.0.1 .public.test/",
    "http://127.0.0.1\t/",
    "http://127.0.0.1\r\nHost:public.test/",
    " http://127.0.0.1/",
    "ht\ntp://127.0.0.1/",
    "http:\\\\127.0.0.1/",
    "http:/127.0.0.1/",
    "http:///127.0.0.1/",
    "http:127.0.0.1/",
    "//127.0.0.1/",
    "http://[::1]public.test/",
    "http://[::1",
    "http://",
    "",
    # ports and schemes
    "http://public.test:22/",
    "http://public.test:8080/",
    "http://public.test:0/",
    "http://public.test:65616/",
    "http://public.test:-1/",
    "http://public.test:８0８0/",
    "http://public.test:80:22/",
    "file:///etc/passwd",
    "ftp://public.test/",
    "gopher://public.test:80/_GET",
    "data:text/html,hello",
    "javascript:alert(1)",
    "ws://public.test/",
    "tcp://127.0.0.1:80/",
    "unix:///run/docker.sock",
    "http+unix://%2frun%2fdocker.sock/",
    "blob:http://public.test/1",
    "view-source:http://public.test/",
]


async def _outcome(fetcher: LiveFetcher, url: str) -> WebError | Response:
    try:
        return await fetcher.fetch(url)
    except WebError as error:
        return error


@pytest.mark.parametrize("url", ATTACKS)
def test_attacks_connect_to_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.names["public.test"] = [PUBLIC]
    outcome = asyncio.run(_outcome(LiveFetcher(lookup=world.lookup), url))
    assert isinstance(outcome, WebError)
    assert outcome.kind in ("refused", "dns")
    assert world.connected == []


@pytest.mark.parametrize("url", ATTACKS)
def test_attacks_by_redirect_connect_to_nothing_else(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world = World(monkeypatch)
        location = url.replace("\r\n", "")
        routes = {"/start": reply(302, Location=location), "/": reply(body=b"home")}
        async with StubServer(dict(routes)) as server:
            world.put("public.test", server)
            fetcher = LiveFetcher(lookup=world.lookup, max_retries=0)
            outcome = await _outcome(fetcher, "http://public.test/start")
        assert set(world.connected) == {(PUBLIC, 80)}
        # "http:127.0.0.1/" and the like are relative to the page: they stay where they are.
        assert isinstance(outcome, WebError) or outcome.url.startswith("http://public.test/")

    asyncio.run(main())


@pytest.mark.parametrize(
    "variable", ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"]
)
def test_proxies_of_the_environment_are_not_used(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setenv(variable, "http://127.0.0.1:3128")
        monkeypatch.setenv("no_proxy", "")
        world = World(monkeypatch)
        async with StubServer({"/": reply(body=b"home")}) as server:
            world.put("public.test", server)
            outcome = await _outcome(LiveFetcher(lookup=world.lookup), "http://public.test/")
            refused = await _outcome(LiveFetcher(lookup=world.lookup), "http://127.0.0.1/")
        assert isinstance(outcome, Response)
        assert outcome.body == b"home"
        assert isinstance(refused, WebError)
        assert set(world.connected) == {(PUBLIC, 80)}

    asyncio.run(main())


def test_a_name_that_leads_elsewhere_the_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world = World(monkeypatch)
        answers = [[PUBLIC], ["127.0.0.1"], ["169.254.169.254"], ["::1"]]

        async def lookup(host: str) -> list[str]:
            return answers.pop(0) if len(answers) > 1 else answers[0]

        async with StubServer({"/": reply(body=b"home", Connection="close")}) as server:
            world.put("rebind.test", server)
            fetcher = LiveFetcher(lookup=lookup, respect_robots=False)
            first = await _outcome(fetcher, "http://rebind.test/")
            later = [await _outcome(fetcher, "http://rebind.test/") for _ in range(3)]
        assert isinstance(first, Response)
        assert [error.kind for error in later if isinstance(error, WebError)] == ["refused"] * 3
        assert world.connected == [(PUBLIC, 80)]

    asyncio.run(main())


def test_a_private_address_beside_a_public_one_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world = World(monkeypatch)
        world.names["mixed.test"] = ["127.0.0.1", PUBLIC, "::1", "10.0.0.1"]
        outcome = await _outcome(LiveFetcher(lookup=world.lookup), "http://mixed.test/")
        assert isinstance(outcome, WebError)
        assert outcome.kind == "connect"
        assert world.connected == [(PUBLIC, 80)]

    asyncio.run(main())


def test_the_socket_holds_where_the_resolver_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second line of defence by itself: the first one is taken away."""

    async def main() -> None:
        world = World(monkeypatch)
        fetcher = LiveFetcher(lookup=world.lookup)
        resolver = GuardedResolver(Guard(allow_private=True), 1.0, world.lookup)
        monkeypatch.setattr("webgpt_jax.web.fetch.GuardedResolver", lambda guard, seconds, lookup: resolver)
        outcome = await _outcome(fetcher, "http://name.test/")
        assert isinstance(outcome, WebError)
        assert outcome.kind == "refused"
        assert world.looked_up == ["name.test"]
        assert world.connected == []

    asyncio.run(main())


def test_private_hosts_are_reached_where_allowed() -> None:
    async def main() -> None:
        async with StubServer({"/": reply(body=b"home")}) as server:
            allowed = await LiveFetcher(allow_private_hosts=True).fetch(server.url("/", host="localhost"))
            assert allowed.body == b"home"
            refused = await _outcome(LiveFetcher(), server.url("/"))
            assert isinstance(refused, WebError)
            assert refused.kind == "refused"
            assert "--allow_private_hosts" in refused.message

    asyncio.run(main())
