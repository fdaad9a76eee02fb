"""Senders that take their time: they are answered or closed at the deadline, and slow nobody."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from duly.server import protocol
from tests.server.hostile.conftest import BODY_SECONDS, HEADER_SECONDS
from tests.server.hostile.connections import Connection
from tests.server.hostile.crowds import closed, healthy_meanwhile
from tests.server.hostile.servers import MEGABYTE, serving
from tests.server.hostile.wire import BODY, awaited_answer, delivery, request, signed
from tests.support.processes.leading import until
from tests.support.sizes import sized

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.server.hostile.servers import Server
    from tests.server.hostile.wire import Address

pytestmark = pytest.mark.slow

SOCKETS = sized(200, whole=500)
# Between two bytes of a slow sender.
TRICKLE = 0.2
# What a healthy request may take while all the slow ones knock at once, on two busy cores.
HEALTHY = 8.0
ROOM = 50 * MEGABYTE
# Their seconds begin when the server sees the connection, ours when all have been opened; a server
# without a deadline would go on for minutes.
CLOCKS = 15.0


async def trickle(address: Address, head: bytes, rest: bytes, limit: float) -> tuple[str, float]:
    """Send a byte now and then until the server answers or hangs up; its answer, and after when."""
    reader, writer = await asyncio.open_connection(*address)
    begun = time.monotonic()
    answer = asyncio.create_task(awaited_answer(reader))
    try:
        writer.write(head)
        for byte in rest:
            done, _ = await asyncio.wait([answer], timeout=TRICKLE)
            if done or time.monotonic() - begun > limit:
                break
            writer.write(bytes([byte]))
        if not answer.done():
            answer.cancel()
            return "still open", time.monotonic() - begun
        found = answer.result()
        return "closed" if found is None else found.said, time.monotonic() - begun
    finally:
        await closed(writer)


async def trickle_from_all(
    server: Server, head: bytes, rest: bytes, limit: float
) -> tuple[Counter[str], float, str]:
    """What the slow senders were told, after when at the latest, and how the healthy ones fared."""
    async with healthy_meanwhile(server.address, f"slow_{len(head)}") as healthy:
        ends = await asyncio.gather(
            *[trickle(server.address, head, rest, limit) for _ in range(SOCKETS)]
        )
    healthy.check(at_least=3, within=HEALTHY)
    return Counter(end for end, _ in ends), max(seconds for _, seconds in ends), str(healthy)


def test_slow_bodies_end_at_the_deadline_and_healthy_requests_do_not_notice(
    server: Server, say: Callable[[str], None]
) -> None:
    length = ("content-length", str(len(BODY) + 1000))
    head = request("POST", "/hooks", [*signed("slow"), length], BODY)
    before = server.memory()
    told, seconds, healthy = asyncio.run(
        trickle_from_all(server, head, b" " * 1000, BODY_SECONDS + 20)
    )
    assert told.total() == SOCKETS
    assert set(told) <= {"TOO_SLOW", "closed"}, told
    assert told["TOO_SLOW"] > SOCKETS / 2, told
    assert abs(seconds - BODY_SECONDS) < CLOCKS
    assert server.memory("VmHWM") - before < ROOM
    say(f"{SOCKETS} slow bodies: {dict(told)}, the last after {seconds:.1f} s; {healthy}")


HEAD = b"POST /hooks HTTP/1.1\r\nhost: duly.test\r\nx: "


def test_slow_headers_end_at_the_deadline_and_healthy_requests_do_not_notice(
    server: Server, say: Callable[[str], None]
) -> None:
    told, seconds, healthy = asyncio.run(
        trickle_from_all(server, HEAD, b"y" * 1000, HEADER_SECONDS + 20)
    )
    assert told.total() == SOCKETS
    assert set(told) <= {"TOO_SLOW", "closed"}, told
    assert abs(seconds - HEADER_SECONDS) < CLOCKS
    say(f"{SOCKETS} slow headers: {dict(told)}, the last after {seconds:.1f} s; {healthy}")


def test_plain_uvicorn_leaves_slow_headers_open_as_the_documents_say_but_slows_nobody(
    tmp_path: Path, say: Callable[[str], None]
) -> None:
    """The application is not asked before the headers are complete: it cannot end this."""
    store = f"sqlite:///{tmp_path / 'duly.db'}"
    with serving(store, tmp_path, server="uvicorn") as server:
        told, seconds, healthy = asyncio.run(
            trickle_from_all(server, HEAD, b"y" * 1000, HEADER_SECONDS)
        )
        server.check_alive()
    assert told == {"still open": SOCKETS}
    say(f"{SOCKETS} slow headers, plain uvicorn: {dict(told)} after {seconds:.1f} s; {healthy}")


def test_a_body_that_stops_half_way_and_hangs_up_leaves_nothing_behind(server: Server) -> None:
    async def hang_up() -> None:
        _, writer = await asyncio.open_connection(*server.address)
        writer.write(delivery("half")[:-1])
        await writer.drain()
        await closed(writer)

    async def all_of_them() -> None:
        await asyncio.gather(*[hang_up() for _ in range(200)])

    asyncio.run(all_of_them())
    until(lambda: server.descriptors() < 200 or None)
    server.check_alive()


async def test_a_sender_is_not_late_while_the_server_does_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(protocol, "HEADER_SECONDS", 0.05)
    head = request("GET", "/")
    async with Connection(patient=True) as connection:
        # Timers go off in their order, however busy the machine is: five deadlines, then this one.
        asyncio.get_running_loop().call_later(0.25, connection.go.set)
        await connection.hand([head * 2 + head[:10], head[10:]])
        answers = await connection.answers()
    assert [answer.status for answer in answers] == [200] * 3
