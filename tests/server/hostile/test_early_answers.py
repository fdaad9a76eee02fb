"""An answer that is given before the body was read arrives, and costs no more than its bounds."""

from __future__ import annotations

import asyncio
import socket
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from duly.server import lingering_close
from tests.server.hostile.connections import Connection
from tests.server.hostile.servers import MEGABYTE
from tests.server.hostile.wire import BODY, PATIENCE, answers, request, signed

if TYPE_CHECKING:
    from tests.server.hostile.servers import Server

pytestmark = pytest.mark.slow

FIVE = 5 * MEGABYTE
TRIES = 10
# What the two kernels may hold beside what the server has read.
BUFFERS = 16 * MEGABYTE
CLOSE = [("connection", "close")]


def status_of(server: Server, method: str, path: str, headers: dict[str, str]) -> int:
    """The status that a client of the standard library sees: it writes all before it reads."""
    host, port = server.address
    wanted = urllib.request.Request(
        f"http://{host}:{port}{path}", b" " * FIVE, headers, method=method
    )
    try:
        with urllib.request.urlopen(wanted, timeout=PATIENCE) as found:
            return int(found.status)
    except urllib.error.HTTPError as problem:
        return problem.code


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("POST", "/hooks", {}, 413),
        ("POST", "/nowhere", {}, 404),
        ("POST", "/large", {"content-encoding": "gzip"}, 415),
        ("POST", "/large", {f"x-{number}": "y" for number in range(200)}, 431),
        ("POST", "/large", {"host": "not a host"}, 400),
        ("PUT", "/large", {}, 405),
        ("GET", "/healthz", {}, 200),
    ],
)
def test_a_client_that_writes_before_it_reads_sees_every_early_answer(
    server: Server, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    found = [status_of(server, method, path, headers) for _ in range(TRIES)]
    assert found == [status] * TRIES


def test_chunks_beyond_the_limit_are_told_so_to_a_client_that_writes_before_it_reads(
    server: Server,
) -> None:
    head = request("POST", "/hooks", [*signed("late"), ("transfer-encoding", "chunked")])
    chunks = (b"10000\r\n" + b" " * 0x10000 + b"\r\n") * (FIVE // 0x10000) + b"0\r\n\r\n"
    for _ in range(TRIES):
        with socket.create_connection(server.address, PATIENCE) as connection:
            connection.sendall(head + chunks)
            assert [answer.status for answer in answers(connection)] == [413]


def test_a_sender_that_never_stops_is_cut_off_at_the_bound(server: Server) -> None:
    server.forget_peak()
    before, sent = server.memory(), 0
    with socket.create_connection(server.address, PATIENCE) as connection:
        connection.sendall(request("POST", "/hooks", [("content-length", str(10**12))]))
        with pytest.raises(ConnectionError):
            while sent < 1024 * MEGABYTE:
                connection.sendall(b" " * MEGABYTE)
                sent += MEGABYTE
    assert sent <= lingering_close.LINGER_BYTES + BUFFERS
    assert server.memory("VmHWM") - before < 8 * MEGABYTE


TOO_EARLY = request("POST", "/early", [("content-length", "1000"), *CLOSE], BODY)


async def begin_lingering(connection: Connection) -> None:
    """Have it answer before the body is complete: the answer and an end, but still a connection."""
    await connection.hand([TOO_EARLY])
    async with asyncio.timeout(PATIENCE):
        assert (await connection.reader.read()).startswith(b"HTTP/1.1 200 ")
    assert connection.state.connections


async def test_a_sender_that_never_closes_is_cut_off_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lingering_close, "LINGER_SECONDS", 0.2)
    async with Connection() as connection:
        await begin_lingering(connection)
        await connection.until(lambda: not connection.state.connections)


async def test_what_comes_after_the_last_answer_is_never_parsed_and_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lingering_close, "LINGER_BYTES", 3000)
    monkeypatch.setattr(lingering_close, "LINGER_SECONDS", 3600.0)
    async with Connection() as connection:
        await begin_lingering(connection)
        await connection.hand([request("POST", "/x", [("content-length", "0")]).ljust(1500)] * 2)
        assert connection.state.connections
        await connection.hand([b" "])
        await connection.until(lambda: not connection.state.connections)
        assert [one.path for one in connection.seen] == ["/early"]


async def test_a_sender_that_has_its_answer_and_hangs_up_is_forgotten_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lingering_close, "LINGER_SECONDS", 3600.0)
    async with Connection() as connection:
        await begin_lingering(connection)
        connection.writer.write_eof()
        await connection.until(lambda: not connection.state.connections)


@pytest.mark.parametrize("first", ["answer", "end"])
async def test_the_end_of_the_server_waits_only_a_moment_for_those_who_go_on_sending(
    monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    monkeypatch.setattr(lingering_close, "LINGER_SECONDS", 3600.0)
    monkeypatch.setattr(lingering_close, "HURRIED_SECONDS", 0.2)
    async with Connection(patient=first == "end") as connection:
        if first == "answer":
            await begin_lingering(connection)
            connection.protocol.shutdown()
        else:
            await connection.hand([TOO_EARLY])
            await connection.until(lambda: bool(connection.seen))
            connection.protocol.shutdown()
            connection.go.set()
        await connection.until(lambda: not connection.state.connections)


async def test_a_body_without_end_that_was_answered_early_holds_no_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lingering_close, "LINGER_SECONDS", 0.2)
    async with Connection() as connection:
        await connection.hand([request("POST", "/early", [("content-length", "1000000000")])])
        async with asyncio.timeout(PATIENCE):
            while connection.state.connections:
                await connection.hand([b" "])
                await asyncio.sleep(0)


async def test_a_whole_request_is_answered_and_its_connection_stays_or_closes_at_once() -> None:
    async with Connection() as connection:
        whole = request("POST", "/early", [("content-length", str(len(BODY)))], BODY)
        await connection.hand([whole, whole])
        await connection.quiet()
        assert connection.state.connections
        assert not connection.over
        await connection.hand([request("POST", "/x", [("content-length", "2"), *CLOSE], b"ok")])
        await connection.until(lambda: not connection.state.connections)
        assert [one.path for one in connection.seen] == ["/early", "/early", "/x"]
