"""What both ways of speaking HTTP must do alike; the one that blocks goes through httpcore."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from duly import Egress
from duly.http_client.async_transport import AsyncGuardedTransport
from duly.http_client.stream import MOST_GATHERED, MOST_KEPT
from duly.http_client.sync_transport import GuardedTransport
from tests.http_client.callers import WAYS, call, run_on
from tests.http_client.villains import OK, Connection, answers_every_request, living

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

LARGE = bytes(range(256)) * (MOST_GATHERED // 64)  # four times what is gathered, or kept
assert len(LARGE) > 2 * max(MOST_GATHERED, MOST_KEPT)


def announces(connection: Connection) -> None:
    """Says twice that it is still at it, and answers then."""
    connection.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\n")
    connection.write(OK)


def says_much(connection: Connection) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(LARGE)}\r\n\r\n"
    connection.write(head.encode() + LARGE)


def says_much_in_pieces(connection: Connection) -> None:
    connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for start in range(0, len(LARGE), 10_000):
        part = LARGE[start : start + 10_000]
        connection.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
    connection.write(b"0\r\n\r\n")


def ends_with_the_connection(connection: Connection) -> None:
    connection.write(b"HTTP/1.0 200 OK\r\n\r\nall of it")
    connection.socket.close()


def hangs_up(connection: Connection) -> None:
    connection.socket.close()


def refuses_early(connection: Connection) -> None:
    """Called although the body is not there yet: a server that has read enough."""
    connection.write(b"HTTP/1.1 413 Too Much\r\nContent-Length: 4\r\nConnection: close\r\n\r\nmuch")
    connection.wait()


@pytest.mark.parametrize("colour", WAYS)
def test_what_comes_before_an_answer_is_not_the_answer(colour: str) -> None:
    with living(announces) as den:
        answers = call(colour, Egress(allow=[den.origin]), den.url, den.url)

    assert [(answer.status_code, answer.text) for answer in answers] == [(200, "ok")] * 2
    assert len(den.connections) == 1


@pytest.mark.parametrize("colour", WAYS)
@pytest.mark.parametrize("villain", [says_much, says_much_in_pieces])
def test_a_long_answer_arrives_whole_and_its_connection_is_used_again(
    colour: str, villain: object
) -> None:
    with living(villain) as den:  # type: ignore[arg-type]  # pytest hides what it is
        answers = call(colour, Egress(allow=[den.origin]), den.url, den.url)

    assert [answer.content == LARGE for answer in answers] == [True, True]
    assert len(den.connections) == 1


@pytest.mark.parametrize("colour", WAYS)
def test_an_answer_that_ends_with_its_connection_is_read_to_its_end(colour: str) -> None:
    with living(ends_with_the_connection) as den:
        answers = call(colour, Egress(allow=[den.origin]), den.url, den.url)

    assert [answer.text for answer in answers] == ["all of it"] * 2
    assert len(den.connections) == 2


@pytest.mark.parametrize("colour", WAYS)
def test_a_long_request_arrives_whole(colour: str) -> None:
    with living(answers_every_request) as den:
        call(colour, Egress(allow=[den.origin]), den.url, den.url, method="PUT", content=LARGE)

    assert [request.body == LARGE for request in den.requests] == [True, True]


@pytest.mark.parametrize("colour", WAYS)
def test_a_request_that_is_made_bit_by_bit_is_written_bit_by_bit(colour: str) -> None:
    parts = [LARGE[start : start + 50_000] for start in range(0, len(LARGE), 50_000)]

    def blocking() -> Iterator[bytes]:
        yield from parts

    async def awaited() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    headers = {"Content-Length": str(len(LARGE))}

    async def sent(egress: Egress, url: str) -> httpx.Response:
        async with httpx.AsyncClient(transport=AsyncGuardedTransport(egress)) as client:
            return await client.put(url, content=awaited(), headers=headers)

    with living(answers_every_request) as den:
        egress = Egress(allow=[den.origin])
        if colour == "sync":
            with httpx.Client(transport=GuardedTransport(egress)) as client:
                answer = client.put(den.url, content=blocking(), headers=headers)
        else:
            answer = run_on(colour, sent(egress, den.url))

    assert answer.status_code == 200
    assert [request.body == LARGE for request in den.requests] == [True]


@pytest.mark.parametrize("colour", WAYS)
def test_a_server_that_hangs_up_without_an_answer_is_told_as_such(colour: str) -> None:
    with living(hangs_up) as den, pytest.raises(httpx.RemoteProtocolError):
        call(colour, Egress(allow=[den.origin]), den.url)


@pytest.mark.parametrize("colour", WAYS)
@pytest.mark.parametrize("status", [b"HTTP/1.1 abc\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n\r\n"])
def test_what_is_no_answer_is_told_as_such(colour: str, status: bytes) -> None:
    def speaks_otherwise(connection: Connection) -> None:
        connection.write(status)
        connection.wait()

    with living(speaks_otherwise) as den, pytest.raises(httpx.RemoteProtocolError):
        call(colour, Egress(allow=[den.origin]), den.url)


@pytest.mark.parametrize("colour", WAYS)
def test_a_refusal_is_heard_although_the_request_is_not_read_to_its_end(colour: str) -> None:
    with living(refuses_early, deaf=True) as den:
        [answer] = call(colour, Egress(allow=[den.origin]), den.url, method="PUT", content=LARGE)

    assert (answer.status_code, answer.text) == (413, "much")
