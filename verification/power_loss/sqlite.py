"""`python -m verification.power_loss sqlite`: record the flows, cut the power everywhere."""

from __future__ import annotations

import multiprocessing
import os
import time
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import nullcontext
from typing import TYPE_CHECKING

from tests.support.servers.running import Missing

from duly.app.output import Progress
from verification.power_loss.looking import SqliteFile
from verification.power_loss.record import Synced, Written
from verification.power_loss.recording import ROOT, Recording, loaded, recorded
from verification.power_loss.report import Report
from verification.power_loss.states import cuts
from verification.power_loss.verdicts import Verdict, judge

if TYPE_CHECKING:
    from concurrent.futures import Future
    from contextlib import AbstractContextManager
    from multiprocessing.sharedctypes import Synchronized
    from pathlib import Path

    from verification.power_loss.record import Record

# The quick tier looks at every fourth state.
QUICK = 4
# Of the databases that states lead to, at least one in so many is brought back.
FEWEST = 6
# So many parts for each process that looks: enough for them to end at about the same time.
PARTS = 4
# Seconds between two looks at how far they are.
TICK = 0.5


def run_lane(
    folder: Path | None, *, rounds: int, every: int, state: int | None
) -> Report | Missing:
    """All states of a record, every so many of them, or one; of this record, or of a new one."""
    began = time.monotonic()
    made: AbstractContextManager[Recording | Missing]
    made = recorded(rounds) if folder is None else nullcontext(loaded(folder))
    with made as recording:
        if isinstance(recording, Missing):
            return recording
        took = time.monotonic() - began
        record = recording.record
        if state is None:
            verdict = judged(record, every)
        else:
            verdict = judge(record, (state,))
            keep_files(record, state, recording.keep())
        kept = recording.keep().relative_to(ROOT) if verdict.findings else None
        return Report(
            store="sqlite",
            setting=told_of(record, "recorded" if folder is None else "read", took),
            states=verdict.states,
            recovered=len(verdict.recovered),
            flows=verdict.flows,
            findings=verdict.findings,
            repeat=None
            if kept is None
            else f"python -m verification.power_loss sqlite --recording {kept}",
            seconds=time.monotonic() - began,
        )


def told_of(record: Record, done: str, seconds: float) -> str:
    """What the record holds, in a line."""
    writes = sum(isinstance(step, Written) for step in record.steps)
    syncs = sum(isinstance(step, Synced) for step in record.steps)
    answers = sum(words[0] == "answered" for words in record.told)
    return (
        f"{done} in {seconds:.1f} s: {writes:,} writes, {syncs:,} syncs, {answers} deliveries "
        "answered, by two processes"
    )


def keep_files(record: Record, state: int, folder: Path) -> None:
    """Put the files of one state where a person can open them."""
    found = next((cut for cut in cuts(record) if cut.number == state), None)
    if found is not None:
        place = folder / f"state-{state}"
        place.mkdir(exist_ok=True)
        SqliteFile(place).lay_out(found.files())


class Shared:
    """What the processes that look have in common: they are forked, and find it here."""

    record: Record
    done: Synchronized[int]
    recovered_every: int


def judged(record: Record, every: int) -> Verdict:
    """Look at the states on every processor there is.

    There are fewer databases than states: of those, a larger part is brought back.
    """
    total = sum(1 for _ in cuts(record))
    processes = len(os.sched_getaffinity(0))
    context = multiprocessing.get_context("fork")
    Shared.record = record
    Shared.done = context.Value("i", 0)
    Shared.recovered_every = min(-(-every // 2), FEWEST)
    # Each part goes through the whole record once more, which does not pay for a few states.
    size = -(-total // (processes * (PARTS if every <= QUICK else 1)))
    # Neighbours stay together: they recover to the same databases.
    parts = [range(first, min(first + size, total), every) for first in range(0, total, size)]
    verdict = Verdict()
    with ProcessPoolExecutor(processes, context) as pool, Progress() as progress:
        waiting: set[Future[Verdict]] = {pool.submit(judge_part, part) for part in parts}
        while waiting:
            done, waiting = wait(waiting, TICK, FIRST_COMPLETED)
            for one in done:
                verdict.add(one.result())
            progress.show(f"power cut: {Shared.done.value:,} of {total // every:,} states")
    verdict.findings.sort(key=lambda one: one.state)
    return verdict


def judge_part(part: range) -> Verdict:
    """Look at some of the states, in a process of its own."""

    def looked() -> None:
        with Shared.done.get_lock():
            Shared.done.value += 1

    every = Shared.recovered_every
    return judge(Shared.record, part, recovered_every=every, looked=looked)
