"""Whatever is given as a URL: every parser agrees where it leads, or it is refused."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpcore
import httpx
from hypothesis import example, given, settings
from hypothesis import strategies as st

from duly import Egress
from duly.errors import EgressRefused, UsageError
from duly.outbox.egress import Target, target_of

USUAL = {"http": 80, "https": 443}
HOSTS = st.one_of(
    st.sampled_from(
        [
            "example.com", "example.com.", "127.0.0.1", "127.1", "0x7f.1", "2130706433", "[::1]",
            "[2606:4700::1111]", "[::ffff:8.8.8.8]", "[v1.a]", "xn--exmple-cua.com", "a_b", "",
            "[2606:4700::1111]a", "a[2606:4700::1111]", "[fe80::1%eth0]", "\uff18.8.8.8",
        ]
    ),
    st.text("abx0189.-_[]:%@\\", max_size=20),
    st.ip_addresses().map(lambda one: f"[{one}]" if ":" in str(one) else str(one)),
    st.text(max_size=6),
)  # fmt: skip
URLS = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["https://", "http://", "HTTPS://", "https:", "https:/", "file://", "//"]),
        st.sampled_from(["", "", "", "user@", "user:password@", "@", "a.com\\@", "%40"]),
        HOSTS,
        st.sampled_from(
            ["", "", ":443", ":80", ":", ":0443", ":65536", ":x", ":\uff14\uff14\uff13", ":+443"]
        ),
        st.sampled_from(["", "/", "/a?b", "?@b", "/@c:80", "\\d", "#e", "/[", "/%zz", ";f", "\t"]),
    ),
)


def read_by_all(url: str) -> set[tuple[str, int]]:
    """Where each parser thinks that a URL leads."""
    scheme = urlsplit(url).scheme
    found = set()
    standard = urlsplit(url)
    found.add((str(standard.hostname), standard.port))
    client = httpx.URL(url)
    found.add((client.raw_host.decode(), client.port))
    below = httpcore.URL(url)
    found.add((below.host.decode(), below.port))
    built = httpx.Request("GET", url)  # what the guarded transport is given
    found.add((urlsplit(str(built.url)).hostname or "", built.url.port))
    return {(host.lower().removesuffix("."), port or USUAL[scheme]) for host, port in found}


@given(url=st.one_of(URLS, st.text()))
@example(url="https://[2606:4700::1111]a.com/")
@example(url="https://a.com[2606:4700::1111]/")
@settings(max_examples=300, deadline=None)
def test_every_parser_reads_the_same_host_and_port_or_the_url_is_refused(url: str) -> None:
    try:
        target = target_of(url)
    except EgressRefused:
        return

    assert read_by_all(url) == {(target.host, target.port)}
    assert target.scheme in USUAL


@given(url=st.one_of(URLS, st.text(), st.binary(), st.none(), st.integers()))
@settings(max_examples=100, deadline=None)
def test_the_guard_answers_with_a_target_or_a_refusal_and_nothing_else(url: object) -> None:
    try:
        found: object = Egress().check(url)  # type: ignore[arg-type]  # that is the test
    except UsageError as problem:
        found = problem
    if isinstance(found, Target):
        assert found.scheme == "https"
        assert found.port in (80, 443)
    else:
        assert isinstance(found, EgressRefused) == isinstance(url, str)
        assert str(found)


@given(url=URLS)
@settings(max_examples=100, deadline=None)
def test_the_origin_of_a_url_leads_where_the_url_leads(url: str) -> None:
    try:
        target = target_of(url)
    except EgressRefused:
        return

    assert target_of(target.origin) == target
    # Whoever is told to allow it can: the advice of a refusal works.
    assert Egress(allow=[target.origin]).check(url) == target
