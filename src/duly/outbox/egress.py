"""The egress guard: where messages and calls may go.

An HTTP client that is given a stranger's address lets the stranger reach all that this machine can
reach. So by default only https goes out, to ports 80 and 443, to addresses of the outside world;
everything else must be allowed by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from duly.core.errors import EgressRefused, UsageError
from duly.core.exports import export
from duly.core.validation import checked_count, checked_duration, kind
from duly.outbox.networks import refusal

if TYPE_CHECKING:
    from duly.outbox.networks import Address, Network

PORTS = (80, 443)
USUAL = {"http": 80, "https": 443}
# As long as servers take; presigned addresses come near it.
LONGEST_URL = 8192
# Long enough for a slow receiver, short enough that a hanging one does not hold a slot for long.
DEADLINE = timedelta(seconds=15)
# Enough for any acknowledgement; nothing of it is kept.
LIMIT = 16 * 1024
MOST_READ = 1024 * 1024 * 1024
# Visible ASCII without what parsers disagree about.
CLEAN = re.compile(r"[!-~]+")
UNCLEAN = re.compile(r"[\\\"<>^`{|}]")
LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
NAME = re.compile(rf"{LABEL}(\.{LABEL})*\.?")
# An address of IPv6, without a zone, and a port.
BRACKETS = re.compile(r"\[[0-9a-fA-F:.]+\](:[0-9]*)?")
# A name whose last part is a number is an address to some resolvers: 2130706433, 127.1, 0x7f.1.
NUMERIC = re.compile(r"(.*\.)?([0-9]+|0[xX][0-9a-fA-F]*)\.?")


class Target(NamedTuple):
    """Where a request goes."""

    scheme: str
    host: str
    port: int

    @property
    def origin(self) -> str:
        """As it is written: the port is left out where it is the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == USUAL[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"


@export
@dataclass(frozen=True)
class Egress:
    """What may leave this machine, and for how long.

    Args:
        allow: what is let out beside the outside world: an origin, as in
            ``"http://billing.internal:8080"``, whatever it resolves to; or a network, as in
            ``"10.2.0.0/16"``, by https and on the usual ports.
        ports: to which ports, unless an origin is allowed as it is.
        deadline: how long one request may take in all.
        limit: how many bytes of the answer to a message are read; the rest is discarded.
    """

    allow: Iterable[str] = ()
    ports: Iterable[int] = PORTS
    deadline: timedelta = DEADLINE
    limit: int = LIMIT
    origins: frozenset[Target] = field(init=False, repr=False, compare=False)
    networks: tuple[Network, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        allow, ports = checked_tuple("allow", self.allow), checked_tuple("ports", self.ports)
        for port in ports:
            checked_count("each of ports", port, most=65535)
        checked_duration("deadline", self.deadline)
        checked_count("limit", self.limit, most=MOST_READ)
        origins = [allowed_origin(entry) for entry in allow if "://" in checked_entry(entry)]
        networks = [allowed_network(entry) for entry in allow if "://" not in entry]
        object.__setattr__(self, "allow", allow)
        object.__setattr__(self, "ports", ports)
        object.__setattr__(self, "origins", frozenset(origins))
        object.__setattr__(self, "networks", tuple(networks))

    def check(self, url: str) -> Target:
        """Where a URL leads; raises `EgressRefused` where it cannot be let out.

        No name is looked up here: its addresses are checked when they are dialled.
        """
        target = target_of(url)
        if target in self.origins:
            return target
        if target.scheme != "https":
            raise EgressRefused(
                f"only https leaves this machine, not {target.origin}: where it is yours, allow it "
                f'with Egress(allow=["{target.origin}"])'
            )
        if target.port not in self.ports:
            raise EgressRefused(
                f"port {target.port} of {target.origin} is not one of {self.ports}: allow it with "
                f'Egress(allow=["{target.origin}"])'
            )
        literal = literal_of(target.host)
        if literal is not None:
            self.check_address(target, literal)
        return target

    def check_address(self, target: Target, address: Address) -> None:
        """Refuse an address that a name has led to, or that stands in a URL itself."""
        if target in self.origins or any(address in network for network in self.networks):
            return
        why = refusal(address)
        if why is not None:
            raise EgressRefused(
                f"{target.origin} leads to {address}: {why}. Where that is meant, allow it with "
                f'Egress(allow=["{target.origin}"])'
            )


def target_of(url: object) -> Target:
    """The origin of a URL that every parser reads in the same way."""
    if not isinstance(url, str):
        raise UsageError(f"url must be a string, not {kind(url)}")
    return parse_target(url)


@lru_cache(maxsize=256)
def parse_target(url: str) -> Target:
    """Parse a URL; cached, because messages go to the same few addresses."""
    if len(url) > LONGEST_URL:
        raise EgressRefused(f"this URL has {len(url):,} characters, the most is {LONGEST_URL:,}")
    if not CLEAN.fullmatch(url) or UNCLEAN.search(url):
        raise EgressRefused(
            "this URL has characters that do not belong in one (spaces, control characters, "
            "backslashes, letters beyond ASCII): percent-encode them, and write a host in its "
            "xn-- form"
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise EgressRefused(
            "this is no URL, its host or its port cannot be read: write https://example.com/path"
        ) from None
    refuse_parts(parts, url)
    usual = USUAL[parts.scheme]
    return Target(parts.scheme, host_of(parts), usual if port is None else port)


def refuse_parts(parts: SplitResult, url: str) -> None:
    """Refuse what is not a plain address of the web."""
    if parts.scheme not in USUAL:
        told = repr(parts.scheme[:20]) if parts.scheme else "an address without a scheme"
        raise EgressRefused(f"only http and https are spoken here, not {told}: write https://…")
    if "@" in parts.netloc:
        raise EgressRefused(
            "this URL has a user or a password in it: leave them out, and sign the message"
        )
    if "#" in url:
        raise EgressRefused("this URL has a fragment (#…), which is never sent: leave it out")
    if parts.port == 0:
        raise EgressRefused("port 0 is no port: leave it out, or write one from 1 to 65535")


def host_of(parts: SplitResult) -> str:
    """The host, as it is compared."""
    host = (parts.hostname or "").lower()
    if "[" in parts.netloc or "]" in parts.netloc:
        if not BRACKETS.fullmatch(parts.netloc) or literal_of(host) is None:
            raise EgressRefused(
                "this URL has no address between its brackets, or more than that: write "
                "[address] or [address]:port"
            )
        return host
    if literal_of(host) is not None:
        return host
    if NUMERIC.fullmatch(host):
        raise EgressRefused(
            f"{host[:80]} is a number that some resolvers read as an address: write four numbers "
            "with dots, or a name"
        )
    if len(host) > 253 or not NAME.fullmatch(host):
        raise EgressRefused(
            f"{host[:80]!r} is not the name of a host: write https://example.com/path"
        )
    return host.removesuffix(".")


def literal_of(host: str) -> Address | None:
    """The address that a host is; None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def unwrap_mapped(address: Address) -> Address:
    """An address without its IPv6 wrapping, where that is only another spelling."""
    inner = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if inner is None else inner


def checked_tuple(what: str, values: object) -> tuple[Any, ...]:
    """Several values, not one."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise UsageError(f"{what} must be a list, not {kind(values)}: write {what}=[…]")
    return tuple(values)


def checked_entry(entry: object) -> str:
    """One entry of the list of what is allowed."""
    if not isinstance(entry, str):
        raise UsageError(f"allow must be a list of strings, not of {kind(entry)}")
    return entry


def allowed_origin(entry: str) -> Target:
    """An origin that is let out as it is."""
    if "*" in entry:
        raise UsageError("allow takes whole names, and knows no *: write each origin that is meant")
    target = target_of(entry)
    if urlsplit(entry).path not in ("", "/") or "?" in entry:
        raise UsageError(
            f"allow takes origins, without a path: {target.origin!r}, not {entry[:80]!r}"
        )
    return target


def allowed_network(entry: str) -> Network:
    """A network that is let out."""
    try:
        found = ip_network(entry, strict=False)
    except ValueError:
        raise UsageError(
            f"allow takes origins ('http://billing.internal:8080') and networks ('10.2.0.0/16'), "
            f"not {entry[:80]!r}: write one of these"
        ) from None
    if "/" in entry and found.network_address != ip_address(entry.partition("/")[0]):
        raise UsageError(
            f"{entry[:80]!r} is an address in a network: write '{found}' for all of it"
        )
    return found
