"""Steps of people: what was given up is replayed or discarded, and events are forgotten."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import duly
from verification.crash_matrix.bench import Bench, Delivery

if TYPE_CHECKING:
    from verification.crash_matrix.places import Place

# Its handler fails for good until somebody has mended it.
LOST = Delivery("lost", "id_5")


async def buried(bench: Bench, place: Place) -> None:
    """A job that was given up."""
    await bench.enqueue("flaky", "it")
    place.rows("UPDATE duly_jobs SET max_attempts = 1")
    await bench.work()
    place.rows("UPDATE duly_jobs SET max_attempts = 5")


async def replaying(bench: Bench, place: Place) -> None:
    """Have whatever is dead run again."""
    await bench.replay([letter.id for letter in await bench.dead()])


async def refused(bench: Bench, place: Place) -> None:
    """A message that its receiver would not have."""
    await bench.send("/refused/1", key="refused")
    await bench.relay()


async def sending_again(bench: Bench, place: Place) -> None:
    """Have whatever message is dead sent again."""
    for message in await bench.outbox("dead"):
        await bench.outbox("replay", message.id)


async def buried_and_refused(bench: Bench, place: Place) -> None:
    """One of each."""
    await buried(bench, place)
    await refused(bench, place)


async def discarding(bench: Bench, place: Place) -> None:
    """Remove whatever is dead for good."""
    for letter in await bench.dead():
        await bench.discard(letter.id)
    for message in await bench.outbox("dead"):
        await bench.outbox("discard", message.id)


async def given_up(bench: Bench, place: Place) -> None:
    """An event whose only job is dead."""
    await bench.deliver(LOST)
    await bench.work()


async def forgetting(bench: Bench, place: Place) -> None:
    """Clear the claim of the event, and its dead job with it."""
    await bench.forget(LOST.source, LOST.id)


async def forgotten_and_asked(bench: Bench, place: Place) -> None:
    """Forget it again unless that was told, mend the handler, and have the event sent again."""
    journal = bench.terms.journal
    if not journal.of("completed") and not journal.of("mended"):
        with suppress(duly.errors.UsageError):  # it had been forgotten already
            await forgetting(bench, place)
    journal.write("mended")
    await bench.deliver(LOST)
