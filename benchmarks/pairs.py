"""The duels of one store in one colour: ours against the peer in every measure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.duels import Duel
from benchmarks.measures import BATCH, CALLERS, FIRST, MANY, MEASURES, awaited, blocking, tasks
from benchmarks.measures import threads as at_once

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable
    from concurrent.futures import ThreadPoolExecutor

    from benchmarks.measures import Claims, Side

# What makes a batch worth its own verb.
BATCH_AIM = 8.0
SHARED = f"dedup-first-{CALLERS}-callers"
WORTH = f"dedup_many-{BATCH}-vs-one-by-one"


def blocking_duels(
    store: str,
    ours: Side[bool],
    peer: Side[bool],
    shared: Claims[bool],
    threads: ThreadPoolExecutor,
) -> list[Duel]:
    """The blocking colour; ``shared`` is the peer that many threads may use."""
    place = f"{store}/sync"
    found = [
        Duel(f"{place}/{measure.name}", blocking(ours, measure), blocking(peer, measure))
        for measure in MEASURES
    ]
    many, single = blocking(ours, MANY), blocking(ours, FIRST)
    found.append(Duel(f"{place}/{WORTH}", many, single, BATCH_AIM))
    found.append(Duel(f"{place}/{SHARED}", at_once(ours, threads), at_once(shared, threads)))
    return found


def awaited_duels(
    store: str,
    ours: Side[Awaitable[bool]],
    peer: Side[Awaitable[bool]],
    shared: Claims[Awaitable[bool]],
    runner: asyncio.Runner,
) -> list[Duel]:
    """The awaited colour; ``shared`` is the peer that many tasks may use."""
    place = f"{store}/async"
    found = [
        Duel(
            f"{place}/{measure.name}",
            awaited(ours, measure, runner),
            awaited(peer, measure, runner),
        )
        for measure in MEASURES
    ]
    many, single = awaited(ours, MANY, runner), awaited(ours, FIRST, runner)
    found.append(Duel(f"{place}/{WORTH}", many, single, BATCH_AIM))
    found.append(Duel(f"{place}/{SHARED}", tasks(ours, runner), tasks(shared, runner)))
    return found
