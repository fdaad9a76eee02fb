"""What is checked is what is dialled, whatever a name answers a moment later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from duly import Egress
from duly.errors import EgressRefused
from tests.http_client.callers import COLOURS, call
from tests.http_client.certificates import Authority
from tests.http_client.names import Names
from tests.http_client.villains import answers_every_request, living, saying
from tests.http_client.wires import dials

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.parametrize("colour", COLOURS)
CLOSING = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
PUBLIC = "93.184.215.14"


def test_a_name_that_answers_differently_a_moment_later_changes_nothing(colour: str) -> None:
    names = Names(shop_example=[[PUBLIC], ["127.0.0.1"]])
    with dials() as seen, pytest.raises(httpx.ConnectError):
        call(colour, Egress(), "https://shop.example/", resolver=names)

    assert names.asked == ["shop.example"]
    assert seen == [(PUBLIC, 443)]  # and that was stopped here, before it left


def test_each_new_connection_is_checked_anew(
    colour: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    names = Names(shop_example=[["127.0.0.2"], ["127.0.0.3"]])
    with (
        living(saying(CLOSING), tls=authority.server("shop.example"), host="127.0.0.2") as den,
        dials() as seen,
        pytest.raises(EgressRefused, match=r"leads to 127\.0\.0\.3: loopback"),
    ):
        egress = Egress(allow=["127.0.0.2/32"], ports=(den.port,))
        call(colour, egress, *[f"https://shop.example:{den.port}/"] * 2, resolver=names)

    assert len(den.requests) == 1
    assert seen == [("127.0.0.2", den.port)]


def test_a_kept_connection_stays_where_it_was_checked(colour: str) -> None:
    with living(answers_every_request) as den, dials() as seen:
        names = Names(shop_example=[["127.0.0.1"], [PUBLIC]])
        egress = Egress(allow=[f"http://shop.example:{den.port}"])
        call(colour, egress, *[f"http://shop.example:{den.port}/"] * 3, resolver=names)

    assert len(den.requests) == 3
    assert names.asked == ["shop.example"]
    assert seen == [("127.0.0.1", den.port)]


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        [PUBLIC, "127.0.0.1"],
        ["127.0.0.1", PUBLIC],
        [PUBLIC, "1.1.1.1", "8.8.8.8", "9.9.9.9", "10.0.0.1"],
        [PUBLIC, "::ffff:169.254.169.254"],
        ["2606:4700::1111", "fd00:ec2::254"],
        ["fe80::1%lo"],
    ],
    ids=",".join,
)
def test_one_refused_answer_spoils_all_the_others(colour: str, addresses: list[str]) -> None:
    names = Names(shop_example=[addresses])
    with dials() as seen, pytest.raises(EgressRefused, match="leads to"):
        call(colour, Egress(), "https://shop.example/", resolver=names)

    assert seen == []


def test_further_addresses_are_tried_where_the_first_does_not_answer(colour: str) -> None:
    with living(answers_every_request) as den, dials() as seen:
        names = Names(shop_example=[["127.0.0.9", "::1", "127.0.0.1", "127.0.0.1"]])
        egress = Egress(allow=[f"http://shop.example:{den.port}"])
        [response] = call(colour, egress, f"http://shop.example:{den.port}/", resolver=names)

    assert response.status_code == 200
    assert [host for host, _ in seen] == ["127.0.0.9", "::1", "127.0.0.1"]


def test_a_host_with_many_addresses_is_tried_at_a_few(colour: str) -> None:
    with living(answers_every_request) as den, dials() as seen:
        names = Names(shop_example=[[f"127.0.1.{last}" for last in range(1, 60)] + ["127.0.0.1"]])
        egress = Egress(allow=[f"http://shop.example:{den.port}"])
        with pytest.raises(httpx.ConnectError):
            call(colour, egress, f"http://shop.example:{den.port}/", resolver=names)

    assert 1 <= len(seen) <= 8


def test_a_name_without_an_address_is_an_error_of_the_network(colour: str) -> None:
    with pytest.raises(httpx.ConnectError, match=r"no address is known for shop\.example"):
        call(colour, Egress(), "https://shop.example/", resolver=Names(shop_example=[[]]))


@pytest.mark.parametrize("problem", [OSError("no such name"), UnicodeError("label too long")])
def test_a_resolver_that_fails_is_an_error_of_the_network(colour: str, problem: Exception) -> None:
    def fail() -> list[str]:
        raise problem

    with pytest.raises(httpx.ConnectError, match=r"shop\.example cannot be resolved"):
        call(colour, Egress(), "https://shop.example/", resolver=Names(shop_example=fail))


def test_the_host_header_keeps_the_name(colour: str) -> None:
    with living(answers_every_request) as den:
        names = Names(shop_example=[["127.0.0.1"]])
        egress = Egress(allow=[f"http://shop.example:{den.port}"])
        call(colour, egress, f"http://SHOP.example:{den.port}/a?b", resolver=names)

    [request] = den.requests
    assert request.line == "GET /a?b HTTP/1.1"
    assert request.headers["host"] == f"shop.example:{den.port}"


@pytest.mark.parametrize(
    ("allowed", "asked"),
    [
        ("http://shop.example:443", "https://shop.example/"),
        ("https://shop.example:80", "http://shop.example/"),
        ("http://shop.example", "https://shop.example:80/"),
    ],
)
def test_an_allowed_origin_says_nothing_of_the_other_scheme(
    colour: str, allowed: str, asked: str
) -> None:
    names = Names(shop_example=[["127.0.0.1"]])
    with dials() as seen, pytest.raises(EgressRefused):
        call(colour, Egress(allow=[allowed]), asked, resolver=names)

    assert seen == []


def test_two_spellings_of_a_host_share_a_connection_or_have_their_own(colour: str) -> None:
    with living(answers_every_request) as den:
        names = Names(shop_example=[["127.0.0.1"]], shop_example_=[["127.0.0.1"]])
        egress = Egress(allow=[f"http://shop.example:{den.port}"])
        both = [f"http://shop.example:{den.port}/", f"http://shop.example.:{den.port}/"]
        found = call(colour, egress, *both, *both, resolver=names)

    assert [response.status_code for response in found] == [200] * 4
