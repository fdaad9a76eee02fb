"""Which addresses are the outside world's, at every edge and in every form."""

from __future__ import annotations

import sys
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from duly.errors import EgressRefused
from duly.http_client.connect import allowed_addresses
from duly.outbox.egress import Egress
from duly.outbox.networks import REFUSED, REFUSED_SIX, Address, refusal
from tests.http_client.names import answer
from tests.http_client.ranges import (
    FOUR,
    NOTORIOUS,
    OBSOLETE,
    OUTSIDE,
    OUTSIDE_SIX,
    SIX,
    SPELLINGS,
    Range,
    compatible,
    six_to_four,
    translated,
)

if TYPE_CHECKING:
    from collections.abc import Callable

GUARD = Egress()


def dialled(guard: Egress, *addresses: str) -> list[str]:
    """What is dialled where a name leads to these."""
    target = guard.check("https://example.com/")
    return allowed_addresses(
        guard, target, "example.com", [answer(address) for address in addresses]
    )


def refused(text: str) -> None:
    """An address is refused where it stands in a URL, and where a name leads to it."""
    host = f"[{text}]" if ":" in text else text
    with pytest.raises(EgressRefused, match="leads to"):
        GUARD.check(f"https://{host}/hook")
    with pytest.raises(EgressRefused, match="leads to"):
        dialled(GUARD, text)
    with pytest.raises(EgressRefused, match="leads to"):  # one bad answer spoils the others
        dialled(GUARD, "1.1.1.1", text)


def let_out(text: str) -> None:
    host = f"[{text}]" if ":" in text else text
    GUARD.check(f"https://{host}/hook")
    assert len(dialled(GUARD, text)) == 1


def test_the_table_here_has_every_range_of_the_guard() -> None:
    here = {each.network for each in (*FOUR, *SIX)}

    assert {str(network) for network, _ in (*REFUSED, *REFUSED_SIX)} <= here


@pytest.mark.parametrize("each", [*FOUR, *SIX], ids=lambda each: each.network)
def test_a_range_is_refused_from_its_first_to_its_last_address_and_no_further(each: Range) -> None:
    for text in (each.first, each.last):
        refused(text)
    for text in each.beside:
        let_out(text)


@pytest.mark.parametrize("each", FOUR, ids=lambda each: each.network)
def test_an_ipv4_address_is_judged_the_same_inside_every_ipv6_form(each: Range) -> None:
    for spelt in (*SPELLINGS, *OBSOLETE):
        for text in (each.first, each.last):
            refused(spelt(IPv4Address(text)))
    for text in each.beside:
        for spelt in SPELLINGS:
            let_out(spelt(IPv4Address(text)))
        for spelt in OBSOLETE:
            refused(spelt(IPv4Address(text)))


@pytest.mark.parametrize("text", NOTORIOUS)
def test_what_attackers_aim_at_is_refused(text: str) -> None:
    refused(text)


@pytest.mark.parametrize("text", ["fe80::1%eth0", "fe80::1%1", "2606:4700::1111%eth0"])
def test_an_address_of_one_link_is_refused(text: str) -> None:
    with pytest.raises(EgressRefused, match="leads to"):
        dialled(GUARD, text)
    with pytest.raises(EgressRefused, match="between its brackets"):
        GUARD.check(f"https://[{text}]/")


@pytest.mark.parametrize("text", [*OUTSIDE, *OUTSIDE_SIX])
def test_the_outside_world_is_let_out(text: str) -> None:
    let_out(text)


def test_a_mapped_address_is_dialled_as_what_it_is_and_nat64_is_left_to_the_network() -> None:
    assert dialled(GUARD, "::ffff:1.1.1.1", "::ffff:101:101", "1.1.1.1") == ["1.1.1.1"]
    assert dialled(GUARD, "64:ff9b::1.1.1.1") == ["64:ff9b::101:101"]


@pytest.mark.parametrize("spelt", [*SPELLINGS, compatible, translated, six_to_four])
def test_the_reason_names_the_address_inside(spelt: Callable[[IPv4Address], str]) -> None:
    told = refusal(ip_address(spelt(IPv4Address("169.254.169.254"))))

    assert told is not None
    assert "169.254.169.254, link-local" in told


def test_an_allowed_network_is_let_out_in_its_mapped_spelling_too_and_nothing_beside_it() -> None:
    guard = Egress(allow=["10.2.0.0/16"])

    for text in ("10.2.0.0", "10.2.255.255", "::ffff:10.2.3.4"):
        assert dialled(guard, text)
    for text in ("10.1.255.255", "10.3.0.0", "::ffff:10.3.0.0", "64:ff9b::10.2.3.4", "127.0.0.1"):
        with pytest.raises(EgressRefused):
            dialled(guard, text)


# Where the guard refuses what ``ipaddress`` calls global. Versions of Python differ in which of
# these they know, so that a difference must be explained, and need not be there.
STRICTER: dict[str, tuple[str, ...]] = {
    # is_global knows which addresses are registered, not which are one machine.
    "multicast": ("224.0.0.0/4", "ff00::/8"),
    # Anycast relays and name servers of the registry: global, but no receiver of ours.
    "protocols": (
        "192.0.0.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.175.48.0/24",
        "2001::/23",
        "2620:4f:8000::/48",
    ),
    # Forms that carry an IPv4 address: is_global looks at the outside, where 127.0.0.1 may be in.
    "carriers": ("64:ff9b::/96", "::/96", "::ffff:0:0:0/96", "2002::/16", "::ffff:0:0/96"),
    # Registered after some versions of Python were released.
    "documentation": ("3fff::/20",),
    # Nobody has been given these yet, or any more (site-local); unknown is not global here.
    "unassigned": (
        "100::/8", "200::/7", "400::/6", "800::/5", "1000::/4", "4000::/2", "8000::/1", "::/8",
    ),
}  # fmt: skip
# The other way: a mapped address is private to older versions, whatever is inside.
LOOSER: dict[str, tuple[str, ...]] = {"mapped": ("::ffff:0:0/96",)}


def explained(address: Address, classes: dict[str, tuple[str, ...]]) -> list[str]:
    """The classes of difference that an address belongs to."""
    kind = IPv4Network if isinstance(address, IPv4Address) else IPv6Network
    return [
        name
        for name, networks in classes.items()
        for text in networks
        if (":" in text) == (kind is IPv6Network) and address in kind(text)
    ]


NETWORKS = [
    *(each.network for each in (*FOUR, *SIX) if "/" in each.network.split(" ")[0]),
    "2000::/3",
    "::ffff:0:0/96",
    "64:ff9b::/96",
]
addresses = st.one_of(
    st.ip_addresses(v=4),
    st.ip_addresses(v=6),
    st.sampled_from(NETWORKS).flatmap(lambda network: st.ip_addresses(network=network)),
)


@given(address=addresses)
@example(address=ip_address("224.0.0.1"))
@example(address=ip_address("64:ff9b::7f00:1"))
@example(address=ip_address("::ffff:8.8.8.8"))
@settings(max_examples=200, deadline=None)
def test_the_guard_differs_from_the_standard_library_only_where_it_is_explained(
    address: IPv4Address | IPv6Address,
) -> None:
    ours, theirs = refusal(address) is None, address.is_global
    if ours == theirs:
        return
    classes = LOOSER if ours else STRICTER

    assert explained(address, classes), f"{address}: {ours} here, {theirs} in {sys.version}"


@given(address=addresses)
@settings(max_examples=100, deadline=None)
def test_what_the_guard_lets_out_carries_no_inner_address_that_it_refuses(
    address: IPv4Address | IPv6Address,
) -> None:
    if refusal(address) is not None or isinstance(address, IPv4Address):
        return
    inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]

    assert inner is None or refusal(inner) is None
    assert not (address.is_private and address.ipv4_mapped is None)
    for kind in ("is_loopback", "is_link_local", "is_multicast"):
        assert not getattr(address, kind)
