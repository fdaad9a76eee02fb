"""Many clients at once, some of them healthy, and what they were told."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.server.hostile.wire import Answer, awaited_answer, delivery, split

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from tests.server.hostile.wire import Address

# Between two healthy requests, so that they fill no queue by themselves.
PAUSE = 0.02
# A machine that is late with that pause is late with everything, and with a request, which takes
# several processes some turns each, so many times as much.
TURNS = 10


@dataclass
class Healthy:
    """What became of the genuine deliveries that were sent meanwhile."""

    said: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    late: float = 0.0  # by how much the machine was late with a pause, at worst

    def latency(self, share: float) -> float:
        """The time within which this share of them was answered, in milliseconds."""
        ordered = sorted(self.seconds) or [float("nan")]
        return 1000 * ordered[min(int(share * len(ordered)), len(ordered) - 1)]

    def __str__(self) -> str:
        return (
            f"{len(self.seconds)} healthy requests, p50 {self.latency(0.5):.1f} ms, "
            f"p99 {self.latency(0.99):.1f} ms, slowest {self.latency(1):.1f} ms, "
            f"the machine {1000 * self.late:.1f} ms late"
        )

    def check(self, *, at_least: int, within: float) -> None:
        """All were accepted, and the slowest of them in time, as far as the machine let them."""
        assert set(self.said) == {"accepted"}, self.said
        assert self.said["accepted"] >= at_least, self.said
        assert max(self.seconds) < within + TURNS * self.late, self


@asynccontextmanager
async def healthy_meanwhile(address: Address, name: str) -> AsyncIterator[Healthy]:
    """Genuine deliveries on connections of their own until the block ends."""
    seen = Healthy()
    task = asyncio.create_task(keep_sending(address, name, seen))
    try:
        yield seen
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def keep_sending(address: Address, name: str, seen: Healthy) -> None:
    """A new connection for each: one that is open already would not notice a crowd at the door."""
    for number in range(1_000_000):
        begun = time.perf_counter()
        answer = await sent(address, delivery(f"{name}_{number}"))
        seen.seconds.append(time.perf_counter() - begun)
        seen.said["no answer" if answer is None else answer.said] += 1
        begun = time.perf_counter()
        await asyncio.sleep(PAUSE)
        seen.late = max(seen.late, time.perf_counter() - begun - PAUSE)


async def sent(address: Address, raw: bytes) -> Answer | None:
    """Send one request on a connection of its own; None where it was closed without an answer."""
    try:
        reader, writer = await asyncio.open_connection(*address)
    except ConnectionError:
        return None
    try:
        writer.write(raw)
        return await awaited_answer(reader)
    finally:
        await closed(writer)


async def closed(writer: asyncio.StreamWriter) -> None:
    """Close our side."""
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def provoked(address: Address, raw: bytes, patience: float) -> list[Answer]:
    """Send anything, read what comes until the server falls silent, and hang up."""
    reader, writer = await asyncio.open_connection(*address)
    received = b""
    try:
        writer.write(raw)
        while more := await asyncio.wait_for(reader.read(65536), patience):
            received += more
    except (TimeoutError, ConnectionError):
        pass
    finally:
        await closed(writer)
    return list(all_of(received))


def all_of(received: bytes) -> Iterable[Answer]:
    """Every complete answer in what was received."""
    while (found := split(received)) is not None:
        answer, received = found
        yield answer
