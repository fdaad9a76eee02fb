"""Headers without measure or meaning are refused, with any content."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.server.hostile.wire import BODY, delivery, exchange, request, signed

if TYPE_CHECKING:
    from tests.server.hostile.servers import Server
    from tests.server.hostile.wire import Answer, Pairs

pytestmark = pytest.mark.slow

CLOSE = ("connection", "close")
LENGTH = ("content-length", str(len(BODY)))


def posted(server: Server, headers: Pairs) -> Answer:
    """The one answer to these headers."""
    [answer] = exchange(server.address, request("POST", "/hooks", [*headers, LENGTH, CLOSE], BODY))
    return answer


@pytest.mark.parametrize(
    "more",
    [
        [(f"x-{number}", "y") for number in range(128)],
        [("x-same", "y")] * 128,
        [("x-huge", "y" * 32 * 1024)],
        [("y" * 32 * 1024, "x")],
        [(f"x-{number}", "y" * 1000) for number in range(33)],
        [("cookie", "a=b; " * 8000)],
        [("webhook-signature", "v1,AA==" * 6000)],
    ],
)
def test_more_headers_than_a_webhook_has_are_refused(server: Server, more: Pairs) -> None:
    answer = posted(server, [*signed("flood"), *more])
    assert (answer.status, answer.said, answer.closes) == (431, "HEADERS_TOO_LARGE", True)


def test_as_many_headers_as_a_webhook_may_have_are_taken(server: Server) -> None:
    own = signed("most")
    others = 128 - len(own) - 3  # host, length and connection are headers, too
    more = [(f"x-{number}", "y" * 100) for number in range(others)]
    assert posted(server, [*own, *more]).said == "accepted"


@pytest.mark.parametrize(
    "repeated", ["webhook-signature", "webhook-id", "webhook-timestamp", "Webhook-Signature"]
)
@pytest.mark.parametrize("times", [1, 8, 60])
def test_a_repeated_header_of_the_signature_is_refused(
    server: Server, repeated: str, times: int
) -> None:
    own = dict(signed("repeated"))
    answer = posted(server, [*own.items(), *[(repeated, own[repeated.lower()])] * times])
    assert answer.status in (400, 403), answer
    assert answer.said in ("MALFORMED", "BAD_SIGNATURE")


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
@pytest.mark.parametrize(
    "value", ["", " ", "\xff\xfe", "\x80", "\xe4\xb8\xad", "=?utf-8?q?x?=", "%00", "\\u0000", "v1,"]
)
def test_an_odd_value_in_a_header_of_the_signature_is_refused(
    server: Server, name: str, value: str
) -> None:
    assert posted(server, list((dict(signed("odd")) | {name: value}).items())).status in (400, 403)


@pytest.mark.parametrize(
    "line",
    [
        b"x: a\0b", b"x: a\rb", b"x: a\nb: c", b"x\0: a", b"x\r: a", b"x\xff: a", b"\xc3\xa9: a",
        b"x: a\r\n folded", b": a", b"x y: a", b"x : a", b"x", b"x: \x01", b"x: \x7f",
    ],
)  # fmt: skip
def test_a_line_that_is_no_header_never_reaches_a_handler_as_two(
    server: Server, line: bytes
) -> None:
    head, _, body = delivery("lines", more=[CLOSE]).partition(b"\r\n\r\n")
    found = exchange(server.address, head + b"\r\n" + line + b"\r\n\r\n" + body)
    assert [answer.status for answer in found] in ([400], [200])
