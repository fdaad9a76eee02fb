"""Which network addresses are public, and which are private or reserved.

The standard library's ``is_global`` calls multicast, NAT64 and 6to4 forms of private addresses
global, and differs between versions of Python. So the list is our own, from the registries of
special-purpose addresses, and forms that carry an IPv4 address inside are judged by that.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

# Sources: the IANA special-purpose address registries for IPv4 and IPv6, and RFC 6890.
REFUSED: tuple[tuple[Network, str], ...] = tuple(
    (ip_network(text), why)
    for text, why in (
        ("0.0.0.0/8", "this host"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by a carrier"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local, where cloud metadata is"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved for protocols"),
        ("192.0.2.0/24", "for documentation"),
        ("192.31.196.0/24", "reserved for protocols"),
        ("192.52.193.0/24", "reserved for protocols"),
        ("192.88.99.0/24", "6to4 relays"),
        ("192.168.0.0/16", "private"),
        ("192.175.48.0/24", "reserved for protocols"),
        ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved, and broadcast"),
    )
)
# Of IPv6 only the range for global unicast is public, less the special blocks in it.
UNICAST = IPv6Network("2000::/3")
REFUSED_SIX: tuple[tuple[IPv6Network, str], ...] = tuple(
    (IPv6Network(text), why)
    for text, why in (
        ("2001::/23", "reserved for protocols, Teredo among them"),
        ("2001:db8::/32", "for documentation"),
        ("2620:4f:8000::/48", "reserved for protocols"),
        ("3fff::/20", "for documentation"),
        ("5f00::/16", "for segment routing"),
    )
)
MAPPED = IPv6Network("::ffff:0:0/96")
NAT64 = IPv6Network("64:ff9b::/96")
# Networks whose addresses have an IPv4 address in them, and how many bits stand behind it.
CARRIERS: tuple[tuple[IPv6Network, int], ...] = (
    (MAPPED, 0),
    (IPv6Network("::/96"), 0),
    (IPv6Network("::ffff:0:0:0/96"), 0),
    (NAT64, 0),
    (IPv6Network("2002::/16"), 80),
)


def refusal(address: Address) -> str | None:
    """Why an address is not one of the outside world; None where it is."""
    if isinstance(address, IPv4Address):
        return next((why for network, why in REFUSED if address in network), None)
    inner = embedded_ipv4(address)
    if inner is not None:
        why = refusal(inner)
        if why is not None:
            return f"a form of {inner}, {why}"
        # Public IPv4 inside. A mapped address is only another spelling of it, and NAT64 is how a
        # network without IPv4 reaches the rest; the other forms are out of use.
        out = address in MAPPED or address in NAT64
        return None if out else f"a form of {inner} that is out of use"
    if address.scope_id is not None:
        return "of one link only"
    if address not in UNICAST:
        return "not handed out for use on the internet"
    return next((why for network, why in REFUSED_SIX if address in network), None)


def embedded_ipv4(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address inside an IPv6 address, where its form has one."""
    number = int(address)
    for network, behind in CARRIERS:
        if address in network:
            return IPv4Address((number >> behind) & 0xFFFFFFFF)
    return None
