"""URLs that are meant to be read in two ways, or to leave by another door."""

from __future__ import annotations

import httpx
import pytest

import duly
from duly import Egress
from duly.errors import EgressRefused, UsageError
from duly.outbox.egress import LONGEST_URL

NUMBERS = r"a number that some resolvers read as an address"
CHARACTERS = r"characters that do not belong"
NAME = r"is not the name of a host"
BRACKETS = r"this is no URL|between its brackets"
PORT = r"is not one of \(80, 443\)"
REFUSED = {
    # Numbers that the system's resolver takes for 127.0.0.1, and some for 0.0.0.0.
    "https://2130706433/": NUMBERS,
    "https://0x7f000001/": NUMBERS,
    "https://0X7F000001/": NUMBERS,
    "https://017700000001/": NUMBERS,
    "https://127.1/": NUMBERS,
    "https://127.0.1/": NUMBERS,
    "https://0177.0.0.1/": NUMBERS,
    "https://0x7f.0.0.1/": NUMBERS,
    "https://127.0.0.0x1/": NUMBERS,
    "https://127.0.0.01/": NUMBERS,
    "https://127.0.0.1./": NUMBERS,
    "https://2130706433./": NUMBERS,
    "https://0/": NUMBERS,
    "https://0x/": NUMBERS,
    "https://256.256.256.256/": NUMBERS,
    "https://1.2.3.4.5/": NUMBERS,
    "https://169.254.43518/": NUMBERS,
    "https://example.0x7f/": NUMBERS,
    # A user or a password: the host is not where it seems to be.
    "https://example.com@127.0.0.1/": "a user or a password",
    "https://user:password@example.com/": "a user or a password",
    "https://example.com:443@127.0.0.1/": "a user or a password",
    "https://@example.com/": "a user or a password",
    "https://:@example.com/": "a user or a password",
    "https://example.com%40127.0.0.1/": NUMBERS,
    # Letters that are folded to others.
    "https://\uff11\uff12\uff17.0.0.1/": CHARACTERS,
    "https://①②⑦.0.0.1/": CHARACTERS,
    "https://127。0。0。1/": CHARACTERS,
    "https://ⓔxample.com/": CHARACTERS,
    "https://exämple.com/": CHARACTERS,
    "https://example.com\uff0f@127.0.0.1/": CHARACTERS,
    "https://℀.example.com/": CHARACTERS,
    # Percent-encoded hosts.
    "https://%31%32%37.0.0.1/": NUMBERS,
    "https://exam%70le.com/": NAME,
    "https://example.com%2f.attacker.com/": NAME,
    "https://example.com%00.attacker.com/": NAME,
    "https://[::1%25eth0]/": BRACKETS,
    # Backslashes and characters that some parsers drop.
    "https://example.com\\@127.0.0.1/": CHARACTERS,
    "https:\\\\127.0.0.1/": CHARACTERS,
    "https://example.com\\.attacker.com/": CHARACTERS,
    "https://exa\tmple.com/": CHARACTERS,
    "https://exa\nmple.com/": CHARACTERS,
    "https://example.com/\r\nX-Injected: 1": CHARACTERS,
    "https://example.com/\x00": CHARACTERS,
    "https://example.com/\x7f": CHARACTERS,
    " https://example.com/": CHARACTERS,
    "https://example.com/ ": CHARACTERS,
    "https://exam ple.com/": CHARACTERS,
    "https://example.com/\u2028": CHARACTERS,
    "https://example.com/\ud800": CHARACTERS,
    "https://example.com/<script>": CHARACTERS,
    # A fragment is never sent.
    "https://example.com/#fragment": "fragment",
    "https://example.com#@127.0.0.1/": "fragment",
    "https://example.com/#": "fragment",
    # Ports.
    "https://example.com:0/": "port 0",
    "https://example.com:6379/": PORT,
    "https://example.com:25/": PORT,
    "https://example.com:22/": PORT,
    "https://example.com:65535/": PORT,
    "https://example.com:65536/": "this is no URL",
    "https://example.com:-1/": "this is no URL",
    "https://example.com:+443/": "this is no URL",
    "https://example.com:4_43/": "this is no URL",
    "https://example.com:443:443/": "this is no URL",
    "https://example.com:https/": "this is no URL",
    # Hosts that are none.
    "https://": NAME,
    "https:///": NAME,
    "https:///example.com/": NAME,
    "https:example.com": NAME,
    "https://:443/": NAME,
    "https://./": NAME,
    "https://example..com/": NAME,
    "https://.example.com/": NAME,
    "https://example.com../": NAME,
    "https://-example.com/": NAME,
    "https://example-.com/": NAME,
    "https://example.com;127.0.0.1/": NUMBERS,
    "https://example.com,attacker.com/": NAME,
    "https://exa$mple.com/": NAME,
    "https://*.example.com/": NAME,
    "https://" + "a" * 64 + ".com/": NAME,
    "https://" + "a." * 127 + "com/": NAME,
    # Brackets that are none, or have something beside them.
    "https://[::1/": BRACKETS,
    "https://::1/": "this is no URL",
    "https://[]/": BRACKETS,
    "https://[example.com]/": BRACKETS,
    "https://[127.0.0.1]/": BRACKETS,
    "https://[v1.fe80]/": BRACKETS,
    "https://[[::1]]/": BRACKETS,
    "https://[2606:4700::1111]attacker.com/": BRACKETS,
    "https://attacker.com[2606:4700::1111]/": BRACKETS,
    "https://[2606:4700::1111]x:443/": BRACKETS,
    "https://[2606:4700::1111][::1]/": BRACKETS,
    # Other ways out.
    "http://example.com/": "only https leaves this machine",
    "HTTP://example.com/": "only https leaves this machine",
    "http://127.0.0.1:8080/": "only https leaves this machine",
    "//example.com/": "only http and https are spoken",
    "/hook": "only http and https are spoken",
    "example.com": "only http and https are spoken",
    "": CHARACTERS,
    "file:///etc/passwd": "only http and https are spoken",
    "gopher://127.0.0.1:6379/_FLUSHALL": "only http and https are spoken",
    "ftp://example.com/": "only http and https are spoken",
    "unix:///var/run/docker.sock": "only http and https are spoken",
    "http+unix://%2Fvar%2Frun%2Fdocker.sock/": "only http and https are spoken",
    "ws://example.com/": "only http and https are spoken",
    "wss://example.com/": "only http and https are spoken",
    "data:text/plain,hello": "only http and https are spoken",
    "javascript:alert(1)": "only http and https are spoken",
    "dict://127.0.0.1:11211/": "only http and https are spoken",
    "ldap://127.0.0.1/": "only http and https are spoken",
    "jar:https://example.com/": "only http and https are spoken",
    "https+x://example.com/": "only http and https are spoken",
    "https://example.com/" + "a" * LONGEST_URL: f"the most is {LONGEST_URL:,}",
}


def called(url: str) -> str:
    return url if len(url) < 60 else f"{url[:40]}-{len(url)}"


@pytest.mark.parametrize("url", REFUSED, ids=called)
def test_a_url_that_can_be_read_in_two_ways_is_refused_with_the_reason(url: str) -> None:
    with pytest.raises(EgressRefused, match=REFUSED[url]):
        Egress().check(url)


def test_none_of_them_can_be_staged() -> None:
    app = duly.Duly("memory:")
    for url in REFUSED:
        with pytest.raises(UsageError):
            app.send(url, json={})
    assert app.outbox.stats().ready == 0


@pytest.mark.parametrize(
    "url",
    [
        "https://localhost.localdomain:9/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://[0:0:0:0:0:0:0:1]/",
        "https://[::FFFF:127.0.0.1]/",
        "https://[::ffff:7f00:1]/",
        "https://[0000:0000:0000:0000:0000:ffff:7f00:0001]/",
        "https://[64:ff9b::127.0.0.1]/",
        "https://[fd00:ec2::254]/latest/meta-data/",
        "https://169.254.169.254/latest/meta-data/",
    ],
)
def test_an_address_of_ours_is_refused_however_it_is_written(url: str) -> None:
    with pytest.raises(EgressRefused):
        Egress().check(url)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://example.com", "https://example.com"),
        ("https://example.com/", "https://example.com"),
        ("https://example.com./", "https://example.com"),
        ("HTTPS://EXAMPLE.COM:0443/Path", "https://example.com"),
        ("https://example.com:/", "https://example.com"),
        ("https://example.com:80/", "https://example.com:80"),
        ("https://example.com?@127.0.0.1", "https://example.com"),
        ("https://example.com/@127.0.0.1/", "https://example.com"),
        ("https://example.com/https://127.0.0.1/", "https://example.com"),
        ("https://127.0.0.1.example.com/", "https://127.0.0.1.example.com"),
        ("https://xn--exmple-cua.com/", "https://xn--exmple-cua.com"),
        ("https://a_b.example.com/", "https://a_b.example.com"),
        ("https://1.1.1.1/", "https://1.1.1.1"),
        ("https://[2606:4700::1111]:443/", "https://[2606:4700::1111]"),
    ],
)
def test_a_plain_url_is_let_out(url: str, origin: str) -> None:
    assert Egress().check(url).origin == origin


@pytest.mark.parametrize("url", [None, 5, b"https://example.com/", httpx.URL("https://a.com/")])
def test_what_is_no_text_is_refused_with_what_to_give(url: object) -> None:
    with pytest.raises(UsageError, match="url must be a string"):
        Egress().check(url)  # type: ignore[arg-type]  # that is the test


@pytest.mark.parametrize(
    "other",
    [
        "http://billing.internal:8081/",
        "https://billing.internal:8080/",
        "http://billing.internal/",
        "http://internal:8080/",
        "http://a.billing.internal:8080/",
        "http://127.0.0.1:8080/",
        "http://[::ffff:127.0.0.2]:8080/",
    ],
)
def test_an_allowed_origin_allows_nothing_beside_it(other: str) -> None:
    guard = Egress(allow=["http://billing.internal:8080", "http://127.0.0.2:8080"])

    assert guard.check("http://BILLING.internal.:8080/x").port == 8080
    with pytest.raises(EgressRefused, match="allow it with"):
        guard.check(other)


@pytest.mark.parametrize(
    "options",
    [
        {"allow": "10.0.0.0/8"},
        {"allow": 5},
        {"allow": [5]},
        {"allow": ["10.0.0.1/8"]},
        {"allow": ["billing.internal"]},
        {"allow": ["http://billing.internal/path"]},
        {"allow": ["http://billing.internal?x"]},
        {"allow": ["http://user@billing.internal"]},
        {"allow": ["file:///etc"]},
        {"allow": ["http://2130706433"]},
        {"ports": 443},
        {"ports": [0]},
        {"ports": [65536]},
        {"ports": ["443"]},
        {"limit": 0},
        {"deadline": 5},
    ],
    ids=str,
)
def test_a_guard_that_was_set_up_wrongly_is_no_guard(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        Egress(**options)  # type: ignore[arg-type]  # that is the test
