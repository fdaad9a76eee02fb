"""Connections that are kept are few, and not for long."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from duly import Egress
from duly.http_client.async_transport import AsyncGuardedTransport
from duly.http_client.pool import MOST_FREE
from duly.http_client.sync_transport import GuardedTransport
from tests.http_client.callers import COLOURS
from tests.http_client.villains import OK, Connection, Den, answers_every_request, living
from tests.support.processes.leading import PATIENCE

EACH = 12
DENS = 10
# Seconds that a crowd waits for its last.
PAUSE = 5.0


class Crowd:
    """Answers once so many are there, so that each has a connection of its own."""

    def __init__(self) -> None:
        self._barrier = threading.Barrier(EACH)

    def __call__(self, connection: Connection) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            self._barrier.wait(PAUSE)
        connection.write(OK)


@pytest.mark.parametrize("colour", COLOURS)
def test_free_connections_are_bounded_and_closed_after_a_while(colour: str) -> None:
    with contextlib.ExitStack() as stack:
        dens = [stack.enter_context(living(Crowd())) for _ in range(DENS)]
        other = stack.enter_context(living(answers_every_request))
        egress = Egress(allow=[den.origin for den in (*dens, other)])
        if colour == "sync":
            blocking(egress, dens, other)
        else:
            asyncio.run(awaited(egress, dens, other))

        assert [len(den.connections) for den in dens] == [EACH] * DENS


def blocking(egress: Egress, dens: list[Den], other: Den) -> None:
    with (
        httpx.Client(transport=GuardedTransport(egress)) as client,
        ThreadPoolExecutor(EACH) as pool,
    ):
        for den in dens:
            list(pool.map(client.get, [den.url] * EACH))
        for most in (MOST_FREE, 0):
            until = time.monotonic() + PATIENCE
            while kept(dens) > most:
                assert time.monotonic() < until
                client.get(other.url)
                time.sleep(0.05)


async def awaited(egress: Egress, dens: list[Den], other: Den) -> None:
    async with httpx.AsyncClient(transport=AsyncGuardedTransport(egress)) as client:
        for den in dens:
            await asyncio.gather(*(client.get(den.url) for _ in range(EACH)))
        for most in (MOST_FREE, 0):
            until = time.monotonic() + PATIENCE
            while kept(dens) > most:
                assert time.monotonic() < until
                await client.get(other.url)
                await asyncio.sleep(0.05)


def kept(dens: list[Den]) -> int:
    """How many connections are open."""
    return sum(den.open for den in dens)
