"""What is said in the clear before TLS is nobody's answer; and a connection that ends says so."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from duly import Egress
from duly.http_client.async_transport import AsyncGuardedTransport
from tests.http_client.callers import WAYS, call, run_on
from tests.http_client.certificates import Authority
from tests.http_client.villains import OK, Connection, Den, answers_every_request, living

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from pathlib import Path

FORGED = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
HALF = b"HTTP/1.1 200 OK\r\n\r\nhalf of it,"
AWAITED = WAYS[1:]
# Seconds that an event loop is busy with something else, again and again, as any is.
BUSY = 0.003


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """One that is trusted."""
    made = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.path))
    return made


def in_the_middle(tls: ssl.SSLContext, connection: Connection) -> None:
    """Somebody on the way answers first, and lets the true server speak then."""
    connection.write(FORGED)
    with tls.wrap_socket(connection.socket, server_side=True) as true:
        true.recv(65536)
        true.sendall(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")


async def hindered(work: Any) -> Any:
    """Await something in an event loop that has other things to do."""

    async def hinder() -> None:
        while True:
            time.sleep(BUSY)  # noqa: ASYNC251 - that is what it is about
            await asyncio.sleep(0)

    busy = asyncio.ensure_future(hinder())
    try:
        return await work
    finally:
        busy.cancel()


@pytest.mark.parametrize("colour", WAYS)
def test_an_answer_in_the_clear_is_never_taken_for_one_under_tls(
    colour: str, authority: Authority
) -> None:
    tls = authority.server("127.0.0.1")
    with living(lambda connection: in_the_middle(tls, connection), deaf=True) as den:
        url = den.url.replace("http:", "https:")
        egress = Egress(allow=[url.rsplit("/", 1)[0]])
        for _ in range(5):
            with pytest.raises(httpx.ConnectError):
                asked(colour, egress, url)


def asked(colour: str, egress: Egress, url: str) -> None:
    if colour == "sync":
        call(colour, egress, url)
        return

    async def awaited() -> None:
        async with httpx.AsyncClient(transport=AsyncGuardedTransport(egress)) as client:
            await client.get(url)

    run_on(colour, hindered(awaited()))


@pytest.mark.parametrize("colour", WAYS)
def test_who_hangs_up_before_tls_was_not_reached(colour: str) -> None:
    with living(lambda connection: connection.socket.close(), deaf=True) as den:
        url = den.url.replace("http:", "https:")
        with pytest.raises(httpx.ConnectError):
            asked(colour, Egress(allow=[url.rsplit("/", 1)[0]]), url)


class Leaver:
    """Answers the first request of a connection, and hangs up when it is told to."""

    def __init__(self) -> None:
        self.leave = threading.Event()

    def __call__(self, connection: Connection) -> None:
        leaves = len(connection.requests) == 1 and not self.leave.is_set()
        connection.write(OK)  # who hears this may say that it is time, at once
        if leaves:
            self.leave.wait(10)
            connection.socket.close()


@pytest.mark.parametrize("colour", AWAITED)
def test_a_connection_that_ends_under_our_hands_costs_a_message_nothing(
    colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaver = Leaver()

    async def twice(den: Den) -> list[int]:
        guarded = AsyncGuardedTransport(Egress(allow=[den.origin]))
        async with httpx.AsyncClient(transport=guarded) as client:
            first = await client.post(den.url, headers={"Idempotency-Key": "one"})
            taken, _ = guarded._pool.acquire((b"http", b"127.0.0.1", den.port))
            assert taken is not None
            leaver.leave.set()
            while taken.reusable:  # noqa: ASYNC110 - it is the socket that tells
                await asyncio.sleep(0.001)
            # It was good when it was taken: as if the other side had left a moment later.
            found: Iterator[Any] = iter([(taken, []), (None, [])])
            monkeypatch.setattr(guarded._pool, "acquire", lambda _: next(found))
            second = await client.post(den.url, headers={"Idempotency-Key": "two"})
            return [first.status_code, second.status_code]

    with living(leaver) as den:
        assert run_on(colour, twice(den)) == [200, 200]


@pytest.mark.parametrize("colour", AWAITED)
@pytest.mark.parametrize("closer", ["answer", "transport"])
def test_half_an_answer_that_was_closed_here_does_not_pass_for_all_of_it(
    colour: str, closer: str
) -> None:
    def says_half(connection: Connection) -> None:
        connection.write(HALF)
        connection.wait()

    async def read(den: Den) -> None:
        guarded = AsyncGuardedTransport(Egress(allow=[den.origin], deadline=timedelta(seconds=60)))
        response = await guarded.handle_async_request(httpx.Request("GET", den.url))
        parts: list[bytes] = []

        async def reading() -> None:
            parts.extend([part async for part in response.stream])  # type: ignore[union-attr]

        reader = asyncio.ensure_future(reading())
        await asyncio.sleep(0.05)
        await (response.aclose() if closer == "answer" else guarded.aclose())
        with pytest.raises(httpx.ReadError):
            await reader
        assert not guarded._pool._busy
        await guarded.aclose()

    with living(says_half) as den:
        run_on(colour, read(den))


@pytest.mark.parametrize("colour", AWAITED)
def test_an_answer_that_is_closed_twice_leaves_the_next_call_alone(colour: str) -> None:
    closed = threading.Event()

    def hesitates(connection: Connection) -> None:
        connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
        if len(connection.requests) == 2:
            closed.wait(10)
        connection.write(b"ok")

    async def closed_twice(den: Den) -> list[int]:
        guarded = AsyncGuardedTransport(Egress(allow=[den.origin]))
        first = await guarded.handle_async_request(httpx.Request("GET", den.url))
        await first.aread()
        second = await guarded.handle_async_request(httpx.Request("GET", den.url))
        await first.stream.aclose()  # type: ignore[union-attr]
        closed.set()
        await second.aread()
        await guarded.aclose()
        return [first.status_code, second.status_code]

    with living(hesitates) as den:
        assert run_on(colour, closed_twice(den)) == [200, 200]
        assert len(den.connections) == 1


@pytest.mark.parametrize("colour", AWAITED)
def test_who_is_cancelled_while_others_are_closed_keeps_no_connection(
    colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cancelled(den: Den) -> int:
        guarded = AsyncGuardedTransport(Egress(allow=[den.origin]))
        async with httpx.AsyncClient(transport=guarded) as client:
            await client.get(den.url)
            found, _ = guarded._pool.acquire((b"http", b"127.0.0.1", den.port))
            assert found is not None
            monkeypatch.setattr(guarded._pool, "acquire", lambda _: (found, [found]))
            call = asyncio.ensure_future(client.get(den.url))
            await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            return len(guarded._pool._busy)

    with living(answers_every_request) as den:
        assert run_on(colour, cancelled(den)) == 0
