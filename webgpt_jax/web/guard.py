"""Which addresses the live fetcher may reach, checked at the last moment before the system call that connects.

Pages choose the URLs that are fetched, so a page could point us at the machine's own services, at a cloud's metadata
service or at a private network. A look at the URL is not enough: a name can resolve to anything, and to something else
a second later; a redirect can lead anywhere; an IP literal never passes a resolver. So there are two lines of defence,
both here: `GuardedResolver` drops the forbidden answers of DNS, and `GuardedSocket.connect` refuses a forbidden
address whatever way it came.

The table is our own, not `ipaddress.is_global`, which differs between versions of Python and lets through addresses
that carry a private one inside them (6to4, NAT64).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

Network = IPv4Network | IPv6Network
Lookup = Callable[[str], Awaitable[Sequence[str]]]  # a host name -> its addresses as text; raises OSError

WEB_PORTS = frozenset({80, 443})
MAX_ADDRESSES = 8  # tried of a name's; more would let a page make us knock at any number of doors
MAX_LOOKUPS = 32  # names looked up at a time; each holds a thread while it lasts

# What is never reached: the registries of special-purpose addresses at IANA, and a few that are special in practice.
_SPECIAL: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/8", "unspecified"),  # RFC 791; Linux takes 0.0.0.0 for the machine itself
    ("10.0.0.0/8", "private"),  # RFC 1918
    ("100.64.0.0/10", "carrier-grade NAT"),  # RFC 6598; also the metadata service of Alibaba Cloud
    ("127.0.0.0/8", "loopback"),  # RFC 1122
    ("168.63.129.16/32", "cloud-internal"),  # Azure's platform service: a public address with a private meaning
    ("169.254.0.0/16", "link-local"),  # RFC 3927; the metadata service of most clouds
    ("172.16.0.0/12", "private"),  # RFC 1918
    ("192.0.0.0/24", "protocol-assignment"),  # RFC 6890
    ("192.0.2.0/24", "documentation"),  # RFC 5737
    ("192.88.99.0/24", "6to4 relay"),  # RFC 7526, deprecated
    ("192.168.0.0/16", "private"),  # RFC 1918
    ("198.18.0.0/15", "benchmarking"),  # RFC 2544
    ("198.51.100.0/24", "documentation"),  # RFC 5737
    ("203.0.113.0/24", "documentation"),  # RFC 5737
    ("224.0.0.0/4", "multicast"),  # RFC 5771
    ("240.0.0.0/4", "reserved"),  # RFC 1112; holds 255.255.255.255, the broadcast address
    ("::/128", "unspecified"),  # RFC 4291
    ("::1/128", "loopback"),  # RFC 4291
    ("::ffff:0:0/96", "IPv4-mapped"),  # RFC 4291: an IPv4 address in disguise
    ("::/96", "IPv4-compatible"),  # RFC 4291, deprecated: likewise
    ("::ffff:0:0:0/96", "IPv4-translated"),  # RFC 2765: likewise
    ("64:ff9b::/96", "NAT64"),  # RFC 6052: likewise
    ("64:ff9b:1::/48", "NAT64"),  # RFC 8215: likewise
    ("100::/64", "discard-only"),  # RFC 6666
    ("2001::/32", "Teredo"),  # RFC 4380: likewise
    ("2001::/23", "protocol-assignment"),  # RFC 2928: benchmarking, ORCHID and others
    ("2001:db8::/32", "documentation"),  # RFC 3849
    ("2002::/16", "6to4"),  # RFC 3056: an IPv4 address in disguise
    ("3ffe::/16", "reserved"),  # RFC 3701: the 6bone, given back
    ("3fff::/20", "documentation"),  # RFC 9637
    ("5f00::/16", "segment-routing"),  # RFC 9602
    ("fc00::/7", "unique-local"),  # RFC 4193
    ("fe80::/10", "link-local"),  # RFC 4291
    ("fec0::/10", "site-local"),  # RFC 3879, deprecated
    ("ff00::/8", "multicast"),  # RFC 4291
)
SPECIAL_NETWORKS: tuple[tuple[Network, str], ...] = tuple((ip_network(text), name) for text, name in _SPECIAL)
GLOBAL_UNICAST = IPv6Network("2000::/3")  # all that IANA hands out of IPv6; the rest is reserved


def special_use(address: IPv4Address | IPv6Address) -> str | None:
    """What an address is set apart for ("loopback", "private", ...); None for a public one."""
    for network, name in SPECIAL_NETWORKS:
        if address in network:
            return name
    if isinstance(address, IPv6Address) and (address.scope_id is not None or address not in GLOBAL_UNICAST):
        return "reserved"
    return None


class AddressRefused(OSError):
    """An address or a port that may not be reached. `reason` ends the sentence "It leads to ..."."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"it leads to {reason}")
        self.reason = reason


@dataclass(frozen=True)
class Guard:
    """The rule about addresses and ports."""

    allow_private: bool = False  # lift the rules about special addresses and about ports
    blocked_networks: tuple[str, ...] = ()  # networks never reached, in addition to the special ones

    def __post_init__(self) -> None:
        for network in self.blocked_networks:
            ip_network(network)  # raises ValueError here and not at the first connection

    def check_address(self, text: str) -> None:
        """Raises `AddressRefused` unless the address, in its canonical spelling, may be reached."""
        try:
            address = ip_address(text)
        except ValueError:
            raise AddressRefused("something that is no IP address") from None
        if any(address in ip_network(network) for network in self.blocked_networks):
            raise AddressRefused("an address of a blocked network")
        use = None if self.allow_private else special_use(address)
        if use is not None:
            raise AddressRefused(f"a {use} address ({address})")

    def check_port(self, port: int) -> None:
        """Raises `AddressRefused` for ports other than those of the web."""
        if not self.allow_private and port not in WEB_PORTS:
            raise AddressRefused(f"port {port}, which is not one of the web's (80 and 443)")

    def open_socket(self, addr_info: tuple[Any, ...]) -> socket.socket:
        """A socket that connects only where the guard allows: what aiohttp calls a socket factory."""
        family, kind, protocol, _, _ = addr_info
        return GuardedSocket(self, family, kind, protocol)


class GuardedSocket(socket.socket):
    """A socket whose `connect` asks the guard first: nothing can change the address between check and use."""

    def __init__(self, guard: Guard, family: int, kind: int, protocol: int) -> None:
        if family not in (socket.AF_INET, socket.AF_INET6):
            raise AddressRefused("something that is no internet address")
        super().__init__(family, kind, protocol)
        self._guard = guard

    def connect(self, address: Any) -> None:
        self._guard.check_address(address[0])
        self._guard.check_port(address[1])
        super().connect(address)

    def connect_ex(self, address: Any) -> int:
        self._guard.check_address(address[0])
        self._guard.check_port(address[1])
        return super().connect_ex(address)


class GuardedResolver(AbstractResolver):
    """Looks names up and gives only the addresses that the guard allows.

    Args:
      guard: the rule.
      seconds: how long a lookup may take.
      lookup: what asks the DNS; the system's resolver, in threads of its own, where it is None. (The event loop's few
        threads would all be held up by a handful of names whose servers do not answer.)
    """

    def __init__(self, guard: Guard, seconds: float, lookup: Lookup | None = None) -> None:
        self._guard = guard
        self._seconds = seconds
        self._threads = ThreadPoolExecutor(MAX_LOOKUPS, thread_name_prefix="dns")
        self._lookup = lookup or self._ask_system

    async def _ask_system(self, host: str) -> list[str]:
        ask = partial(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        return [str(address[0]) for _, _, _, _, address in found]

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The allowed addresses of a host. Raises `AddressRefused` where there is none, OSError where DNS fails."""
        try:
            async with asyncio.timeout(self._seconds):
                addresses = await self._lookup(host)
        except TimeoutError:
            raise OSError(f"no answer from the DNS within {self._seconds:g} s") from None
        except UnicodeError:
            raise OSError("not a host name") from None
        refusal = OSError("the name has no address")
        allowed = []
        for address in dict.fromkeys(addresses):
            try:
                self._guard.check_address(address)
            except AddressRefused as refused:
                refusal = refused
            else:
                allowed.append(address)
        if not allowed:
            raise refusal
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in allowed[:MAX_ADDRESSES]
        ]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
