"""Addresses that must not be reached, written down a second time: ranges, their edges, their forms.

The edges are spelt out rather than computed, so that a range that is too short or too long by one
is seen.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple


class Range(NamedTuple):
    """The first and the last address of a range, and those beside it that are the world's."""

    network: str
    first: str
    last: str
    beside: tuple[str, ...]


FOUR = (
    Range("0.0.0.0/8", "0.0.0.0", "0.255.255.255", ("1.0.0.0",)),
    Range("10.0.0.0/8", "10.0.0.0", "10.255.255.255", ("9.255.255.255", "11.0.0.0")),
    Range("100.64.0.0/10", "100.64.0.0", "100.127.255.255", ("100.63.255.255", "100.128.0.0")),
    Range("127.0.0.0/8", "127.0.0.0", "127.255.255.255", ("126.255.255.255", "128.0.0.0")),
    Range("169.254.0.0/16", "169.254.0.0", "169.254.255.255", ("169.253.255.255", "169.255.0.0")),
    Range("172.16.0.0/12", "172.16.0.0", "172.31.255.255", ("172.15.255.255", "172.32.0.0")),
    Range("192.0.0.0/24", "192.0.0.0", "192.0.0.255", ("191.255.255.255", "192.0.1.0")),
    Range("192.0.2.0/24", "192.0.2.0", "192.0.2.255", ("192.0.1.255", "192.0.3.0")),
    Range("192.31.196.0/24", "192.31.196.0", "192.31.196.255", ("192.31.195.255", "192.31.197.0")),
    Range("192.52.193.0/24", "192.52.193.0", "192.52.193.255", ("192.52.192.255", "192.52.194.0")),
    Range("192.88.99.0/24", "192.88.99.0", "192.88.99.255", ("192.88.98.255", "192.88.100.0")),
    Range("192.168.0.0/16", "192.168.0.0", "192.168.255.255", ("192.167.255.255", "192.169.0.0")),
    Range("192.175.48.0/24", "192.175.48.0", "192.175.48.255", ("192.175.47.255", "192.175.49.0")),
    Range("198.18.0.0/15", "198.18.0.0", "198.19.255.255", ("198.17.255.255", "198.20.0.0")),
    Range("198.51.100.0/24", "198.51.100.0", "198.51.100.255", ("198.51.99.255", "198.51.101.0")),
    Range("203.0.113.0/24", "203.0.113.0", "203.0.113.255", ("203.0.112.255", "203.0.114.0")),
    Range("224.0.0.0/4", "224.0.0.0", "239.255.255.255", ("223.255.255.255",)),
    Range("240.0.0.0/4", "240.0.0.0", "255.255.255.255", ()),
)
SIX = (
    Range("2001::/23", "2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
          ("2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::")),
    Range("2001:db8::/32", "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
          ("2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::")),
    Range("2620:4f:8000::/48", "2620:4f:8000::", "2620:4f:8000:ffff:ffff:ffff:ffff:ffff",
          ("2620:4f:7fff:ffff:ffff:ffff:ffff:ffff", "2620:4f:8001::")),
    Range("3fff::/20", "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
          ("3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::")),
    Range("5f00::/16", "5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ()),
    # Ranges that are refused because they are not handed out for use, or carry an old form.
    Range("::/96", "::", "::ffff:ffff", ()),
    Range("::ffff:0:0:0/96", "::ffff:0:0:0", "::ffff:0:ffff:ffff", ()),
    Range("64:ff9b:1::/48", "64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", ()),
    Range("100::/64", "100::", "100::ffff:ffff:ffff:ffff", ()),
    Range("2002::/16", "2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
          ("2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::")),
    Range("below 2000::/3", "1fff::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ("2000::",)),
    Range("above 2000::/3", "4000::", "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
          ("3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",)),
    Range("fc00::/7", "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ()),
    Range("fe80::/10", "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ()),
    Range("fec0::/10", "fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ()),
    Range("ff00::/8", "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ()),
)  # fmt: skip
# What attackers write by name.
NOTORIOUS = (
    "169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "127.0.0.1", "127.8.8.8",
    "0.0.0.0", "255.255.255.255", "224.0.0.1", "192.88.99.1", "10.0.0.1", "172.17.0.1",
    "192.168.1.1", "::", "::1", "::7f00:1", "::ffff:7f00:1", "::ffff:0:7f00:1", "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1", "64:ff9b:1::808:808", "2002:7f00:1::",
    "2002:a9fe:a9fe::1", "2001:0:4136:e378:8000:63bf:80ff:fffe", "fd00:ec2::254", "fec0::1",
    "fe80::1", "ff02::1", "ff0e::1", "100::1", "2001:db8::1", "2001:10::1", "2001:20::1",
)  # fmt: skip
# Nothing of ours is there, and nothing is ever dialled there.
OUTSIDE = ("1.1.1.1", "8.8.8.8", "93.184.215.14", "223.255.255.254")
OUTSIDE_SIX = ("2606:4700:4700::1111", "2a00:1450:4001:830::200e", "2003::1", "2400:cb00::1")


def mapped(inner: IPv4Address) -> str:
    """An IPv4 address as a socket for both families shows it."""
    return f"::ffff:{inner}"


def mapped_in_hex(inner: IPv4Address) -> str:
    return str(IPv6Address((0xFFFF << 32) | int(inner)))


def nat64(inner: IPv4Address) -> str:
    """As a network without IPv4 reaches one that has."""
    return f"64:ff9b::{inner}"


def local_nat64(inner: IPv4Address) -> str:
    return f"64:ff9b:1::{inner}"


def compatible(inner: IPv4Address) -> str:
    return f"::{inner}"


def translated(inner: IPv4Address) -> str:
    return f"::ffff:0:{inner}"


def six_to_four(inner: IPv4Address) -> str:
    return str(IPv6Address((0x2002 << 112) | (int(inner) << 80) | 1))


def teredo(inner: IPv4Address) -> str:
    """The client's address stands inverted at the end."""
    return str(IPv6Address((0x20010000 << 96) | (int(inner) ^ 0xFFFFFFFF)))


SPELLINGS = (mapped, mapped_in_hex, nat64)
OBSOLETE = (local_nat64, compatible, translated, six_to_four, teredo)
