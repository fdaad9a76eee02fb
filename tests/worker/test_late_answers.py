"""A job that may run again at once does, however late its worker hears that it was handed back."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duly.service.completer import Completer
from duly.worker import executor
from duly.worker.executor import Executor
from tests.worker.subjects import cases, seen, working

if TYPE_CHECKING:
    from duly.worker.execution import Execution
    from tests.worker.subjects import Case, DatabaseOf, Hand

HOUR = timedelta(hours=1)
SHORT = timedelta(milliseconds=100)


def hear_of_the_first_end_after_the_second_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the answer to the first settle come when its job was leased again already."""
    leases: list[Execution] = []
    again = asyncio.Event()
    tried, replace = Completer._try_write, Executor.replace_earlier_run

    async def late(self: Any, ends: Any, *, first: bool) -> Any:
        told = await tried(self, ends, first=first)
        await again.wait()
        return told

    def noted(self: Executor, run: Execution) -> bool:
        leases.append(run)
        if len(leases) == 2:
            again.set()
        return replace(self, run)

    monkeypatch.setattr(Completer, "_try_write", late)
    monkeypatch.setattr(Executor, "replace_earlier_run", noted)


async def test_a_job_that_is_leased_again_before_its_end_is_heard_of_is_run_and_not_put_off(
    woven: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    hear_of_the_first_end_after_the_second_lease(monkeypatch)
    attempts: list[int] = []

    async def works(hand: Hand) -> None:
        attempts.append(hand.job.attempt)
        if hand.job.attempt == 1:
            raise ValueError("not this time")

    async with woven.open(place) as subject:
        subject.job(works, attempts=2)
        id = await subject.enqueue()
        worked = await subject.work()
        assert (worked.retried, worked.done) == (1, 1)
        assert attempts == [1, 2]
        assert subject.records.history(id) == [("work", "done", 2)]


@pytest.mark.parametrize(
    "case", cases(kinds=["sqlite", "postgres"], ways=["leased"]), ids=lambda case: case.name
)
async def test_a_job_whose_handler_was_given_up_and_runs_on_is_put_off(
    case: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    hear_of_the_first_end_after_the_second_lease(monkeypatch)
    monkeypatch.setattr(executor, "AGAIN", HOUR // timedelta(microseconds=1))
    let_go = threading.Event()
    runs: list[int] = []

    async def works(hand: Hand) -> None:
        runs.append(hand.job.attempt)
        while not let_go.is_set():
            with suppress(asyncio.CancelledError):  # it does not obey
                await hand.pause(0.01)

    async with case.open(place) as subject:
        subject.job(works, attempts=2, timeout=SHORT)
        id = await subject.enqueue()
        async with working(subject):
            try:
                await seen(lambda: subject.records.present(id)[:4] == ("ready", 1, 0, 2))
                assert runs == [1]
            finally:
                let_go.set()
