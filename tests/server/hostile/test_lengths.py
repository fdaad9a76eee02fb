"""A Content-Length is believed only where it is too much; bytes are counted as they come."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from tests.server.hostile.servers import MEGABYTE
from tests.server.hostile.wire import BODY, answers, delivery, exchange, request, signed

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.server.hostile.servers import Server
    from tests.server.hostile.wire import Answer

pytestmark = pytest.mark.slow

LIMIT = MEGABYTE
CHUNK = b"10000\r\n" + b" " * 0x10000 + b"\r\n"


def posted(server: Server, event_id: str, *lengths: str, body: bytes = BODY) -> list[Answer]:
    """A genuine delivery that says these lengths."""
    headers = [*signed(event_id), *[("content-length", length) for length in lengths]]
    return exchange(server.address, request("POST", "/hooks", headers, body), half_close=False)


@pytest.mark.parametrize(
    "length", ["-1", "+44", "0x2c", "1e3", "44, 45", "four", "4 4", "9" * 40, "44;", "\xb2"]
)
def test_a_length_that_is_no_number_of_bytes_is_malformed(server: Server, length: str) -> None:
    [answer] = posted(server, "no_number", length)
    assert answer.status == 400


@pytest.mark.parametrize("lengths", [("44", "45"), ("44", "44"), ("0", "44")])
def test_lengths_that_are_said_twice_are_malformed(
    server: Server, lengths: tuple[str, str]
) -> None:
    assert [answer.status for answer in posted(server, "twice", *lengths)] == [400]


def test_a_length_beside_chunks_is_malformed(server: Server) -> None:
    headers = [*signed("both"), ("content-length", "44"), ("transfer-encoding", "chunked")]
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    found = exchange(server.address, request("POST", "/hooks", headers, chunks))
    assert [answer.status for answer in found] == [400]


def test_a_length_that_is_too_short_cuts_the_body_and_the_rest_is_no_second_delivery(
    server: Server,
) -> None:
    found = posted(server, "short", str(len(BODY) - 5))
    assert all(answer.status in (400, 403) for answer in found)
    inner = delivery("smuggled")
    found = posted(server, "outer", "0", body=inner + b"\0")
    assert [answer.said for answer in found if answer.status == 200] in ([], ["accepted"])


def test_a_length_that_is_too_long_waits_for_the_deadline(server: Server) -> None:
    [answer] = posted(server, "long", str(len(BODY) + 1))
    assert (answer.status, answer.said, answer.closes) == (408, "TOO_SLOW", True)


@pytest.mark.parametrize("length", [LIMIT + 1, 10**12, 10**17])
def test_a_length_beyond_the_limit_is_refused_before_the_body_is_sent(
    server: Server, length: int
) -> None:
    [answer] = posted(server, "huge", str(length), body=b"")
    assert (answer.status, answer.said, answer.closes) == (413, "TOO_LARGE", True)


def test_a_body_of_the_limit_is_taken_and_one_byte_more_is_not(server: Server) -> None:
    body = BODY + b" " * (LIMIT - len(BODY))
    [most] = exchange(server.address, delivery("limit", body, more=[("connection", "close")]))
    assert most.said == "accepted"
    [more] = exchange(server.address, delivery("beyond", body + b" "))
    assert (more.status, more.said) == (413, "TOO_LARGE")


def chunked_head(event_id: str) -> bytes:
    return request("POST", "/hooks", [*signed(event_id), ("transfer-encoding", "chunked")])


def test_chunks_without_a_length_are_taken_up_to_the_limit(server: Server) -> None:
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    with socket.create_connection(server.address, 10) as connection:
        connection.sendall(chunked_head("chunks") + body)
        assert next(iter(answers(connection))).said == "accepted"


def test_chunks_without_end_are_refused_at_the_limit_and_never_kept(
    server: Server, say: Callable[[str], None]
) -> None:
    sent, found = 0, []
    server.forget_peak()
    before = server.memory()
    with socket.create_connection(server.address, 10) as connection:
        connection.sendall(chunked_head("endless"))
        try:
            while sent < 256 * MEGABYTE:
                connection.sendall(CHUNK)
                sent += len(CHUNK)
        except ConnectionError:
            pass  # closed before the end that never comes
        found = list(answers(connection))
    assert sent < 64 * MEGABYTE
    assert [answer.said for answer in found] in ([], ["TOO_LARGE"])
    grown = server.memory("VmHWM") - before
    assert grown < 8 * MEGABYTE
    say(
        f"chunks without end: {sent // 1024} KiB were sent before the connection was closed, "
        f"answers {[answer.status for answer in found]}, memory grew by {grown // 1024} KiB"
    )


def test_chunks_just_beyond_the_limit_are_told_so_and_the_connection_is_closed(
    server: Server,
) -> None:
    with socket.create_connection(server.address, 10) as connection:
        connection.sendall(chunked_head("beyond") + CHUNK * 16 + b"1\r\n \r\n")
        found = list(answers(connection))
        assert [(answer.status, answer.said, answer.closes) for answer in found] == [
            (413, "TOO_LARGE", True)
        ]
        assert connection.recv(1) == b""
