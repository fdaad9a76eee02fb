"""Connections that are kept are few, and not for long."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from duly import Egress
from duly.runtime.calling.heaps import KEEP_ALIVE, MOST_FREE
from duly.runtime.calling.transports import AsyncGuarded, Guarded
from tests.egress.callers import COLOURS
from tests.egress.villains import OK, Connection, Den, living

EACH = 12
DENS = 12


def open_files() -> int:
    return len(list(Path(f"/proc/{os.getpid()}/fd").iterdir()))


class Crowd:
    """Answers once so many are there, so that each has a connection of its own."""

    def __init__(self, size: int) -> None:
        self._barrier = threading.Barrier(size)

    def __call__(self, connection: Connection) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            self._barrier.wait(2)
        connection.write(OK)


@pytest.mark.parametrize("colour", COLOURS)
def test_free_connections_are_bounded_and_closed_after_a_while(colour: str) -> None:
    with contextlib.ExitStack() as stack:
        dens = [stack.enter_context(living(Crowd(EACH))) for _ in range(DENS)]
        egress = Egress(allow=[den.origin for den in dens])
        ours = asyncio.run(awaited(egress, dens)) if colour == "async" else blocking(egress, dens)

    assert sum(ours) <= 2 * MOST_FREE  # each has two ends here
    assert ours[1] <= 4


def waited(kept: int) -> list[int]:
    return [kept]


def blocking(egress: Egress, dens: list[Den]) -> list[int]:
    """How many connections are open after a crowd of calls, and a while later after one more."""
    with httpx.Client(transport=Guarded(egress)) as client:
        with ThreadPoolExecutor(EACH) as pool:
            for den in dens:
                list(pool.map(client.get, [den.url] * EACH))
        first = connections(dens)
        time.sleep(KEEP_ALIVE + 0.1)
        client.get(dens[0].url)
        return [first, settled(dens)]


async def awaited(egress: Egress, dens: list[Den]) -> list[int]:
    async with httpx.AsyncClient(transport=AsyncGuarded(egress)) as client:
        for den in dens:
            await asyncio.gather(*(client.get(den.url) for _ in range(EACH)))
        first = connections(dens)
        await asyncio.sleep(KEEP_ALIVE + 0.1)
        await client.get(dens[0].url)
        return [first, settled(dens)]
