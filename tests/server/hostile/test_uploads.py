"""Many bodies at once, and large ones: what is held in memory has a bound, and says so."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tests.server.hostile.application import LARGE
from tests.server.hostile.crowds import closed, healthy_meanwhile, sent
from tests.server.hostile.servers import MEGABYTE, serving
from tests.server.hostile.wire import (
    BODY,
    PATIENCE,
    answers,
    awaited_answer,
    delivery,
    exchange,
    request,
)
from tests.support.sizes import sized

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.server.hostile.crowds import Healthy
    from tests.server.hostile.servers import Server
    from tests.server.hostile.wire import Address

pytestmark = pytest.mark.slow

UPLOADS = sized(600, whole=2000)
# How long healthy deliveries are sent beside bodies that never end.
HEALTHY = 2.0
# The site holds at most 256 MiB of bodies; the rest is what the server and the parser add to them.
ROOM = 500 * MEGABYTE
TAKEN = {"accepted", "duplicate"}
# Come again; "closed" where the answer was lost because we were still sending.
LATER = {"OVERLOADED", "STORE_UNAVAILABLE", "TOO_SLOW", "closed"}
CLOSE = [("connection", "close")]


async def upload(address: Address, raw: bytes, full: asyncio.Barrier) -> str:
    """Send all but the last byte, wait for the others to have done so, then send that."""
    reader, writer = await asyncio.open_connection(*address)
    answer = asyncio.create_task(awaited_answer(reader))
    try:
        writer.write(raw[:-1])
        arrived = asyncio.create_task(writer.drain())
        await asyncio.wait([arrived, answer], return_when=asyncio.FIRST_COMPLETED)
        arrived.cancel()
        await full.wait()
        writer.write(raw[-1:])
        found = await answer
        return "closed" if found is None else found.said
    finally:
        await closed(writer)


async def upload_all(address: Address) -> Counter[str]:
    body = BODY + b" " * (MEGABYTE - len(BODY))
    full = asyncio.Barrier(UPLOADS)
    raws = [delivery(f"upload_{number}", body) for number in range(16)]
    ends = [upload(address, raws[number % 16], full) for number in range(UPLOADS)]
    return Counter(await asyncio.gather(*ends))


def test_hundreds_of_uploads_at_once_are_held_in_bounded_memory(
    tmp_path: Path, say: Callable[[str], None]
) -> None:
    with serving(f"sqlite:///{tmp_path / 'duly.db'}", tmp_path) as server:
        before = server.memory()
        told = asyncio.run(upload_all(server.address))
        peak = server.memory("VmHWM")
        server.check_alive()
        last = asyncio.run(sent(server.address, delivery("after")))
    assert told.total() == UPLOADS
    assert set(told) <= TAKEN | LATER, told
    assert sum(told[said] for said in TAKEN) > 0
    assert peak - before < ROOM, f"{before} bytes became {peak}"
    assert last is not None
    assert last.said == "accepted"
    say(
        f"{UPLOADS} uploads of 1 MiB at once: {dict(told)}, memory {before // MEGABYTE} MB before, "
        f"{peak // MEGABYTE} MB at most"
    )


@dataclass
class Held:
    """Bodies of 1 MiB, unsigned, that were begun and never end."""

    address: Address
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def refused(self, size: int) -> bool:
        """Begin another and stop after so many bytes: whether it was sent away at once."""
        reader, writer = await asyncio.open_connection(*self.address)
        self.writers.append(writer)
        writer.write(request("POST", "/hooks", [("content-length", str(MEGABYTE))], b" " * size))
        try:
            async with asyncio.timeout(0.05):
                return await awaited_answer(reader) is not None
        except TimeoutError:
            return False

    async def fill(self) -> None:
        """Take all the room that bodies have, down to its last byte."""
        await asyncio.gather(*[self.refused(MEGABYTE - 1) for _ in range(250)])
        for size in (MEGABYTE - 1, 100_000, 10_000, 1000, 100, 10, 1):
            for _ in range(12):
                if await self.refused(size):
                    break


async def beside_held(address: Address) -> tuple[int, Healthy]:
    """Who still gets in when bodies that never end hold all the room."""
    held = Held(address)
    try:
        await held.fill()
        async with healthy_meanwhile(address, "beside") as healthy:
            await asyncio.sleep(HEALTHY)
    finally:
        for writer in held.writers:
            writer.transport.abort()
    return len(held.writers), healthy


def test_bodies_that_wait_for_their_end_do_not_shut_out_small_deliveries(
    tmp_path: Path, say: Callable[[str], None]
) -> None:
    with serving(f"sqlite:///{tmp_path / 'duly.db'}", tmp_path) as server:
        held, healthy = asyncio.run(beside_held(server.address))
        server.check_alive()
        peak = server.memory("VmHWM")
    say(
        f"{held} bodies that never end hold all the room for bodies ({peak // MEGABYTE} MB at "
        f"most); beside them {healthy}: {dict(healthy.said)}"
    )
    healthy.check(at_least=3, within=5.0)


def test_a_body_of_25_megabytes_is_taken_where_the_limit_was_raised(
    server: Server, say: Callable[[str], None]
) -> None:
    text = b'{"type":"push","commits":["' + b"x" * (LARGE - 30) + b'"]}'
    body = text + b" " * (LARGE - len(text))
    server.forget_peak()
    before = server.memory()
    for said in ("ignored", "duplicate"):
        [answer] = exchange(server.address, delivery("large", body, path="/large", more=CLOSE))
        assert answer.said == said
    [answer] = exchange(server.address, delivery("large", body + b" ", path="/large"))
    assert answer.said == "TOO_LARGE"
    say(f"25 MiB in one body: memory grew by {(server.memory('VmHWM') - before) // MEGABYTE} MB")


def test_many_small_requests_on_one_connection_are_all_answered(server: Server) -> None:
    with socket.create_connection(server.address, PATIENCE) as connection:
        found = answers(connection)
        for number in range(500):
            connection.sendall(delivery(f"small_{number}"))
            answer = next(found)
            assert (answer.said, answer.json["event"]) == ("accepted", f"small_{number}")


def test_requests_that_are_sent_ahead_are_all_answered_in_order(server: Server) -> None:
    requests = 100
    raw = b"".join(delivery(f"ahead_{number}") for number in range(requests))
    found = exchange(server.address, raw + delivery("last", more=CLOSE))
    ids = [answer.json["event"] for answer in found]
    assert ids == [*[f"ahead_{number}" for number in range(requests)], "last"]
    assert {answer.said for answer in found} == {"accepted"}


def test_more_requests_are_sent_ahead_than_one_may_have_of_headers(server: Server) -> None:
    raw = request("GET", "/healthz") * 5000
    assert len(raw) > 3 * 64 * 1024
    found = exchange(server.address, raw + request("GET", "/healthz", CLOSE))
    assert [answer.status for answer in found] == [200] * 5001
