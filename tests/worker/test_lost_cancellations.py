"""A worker and a relay end although a cancellation of one of their parts was lost on its way."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.relay import relay as relaying
from duly.stores import shielding
from duly.worker import worker as working

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PATIENCE = 30.0


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shielding, "CANCEL_AGAIN", 0.01)


async def deaf(*_: object, **__: object) -> None:
    """Goes on after the first cancellation, as a part of Python's own waits do before 3.12."""
    try:
        await asyncio.sleep(PATIENCE * 10)
    except asyncio.CancelledError:
        await asyncio.sleep(PATIENCE * 10)


def test_a_task_that_did_not_hear_it_is_cancelled_again(caplog: pytest.LogCaptureFixture) -> None:
    async def ended() -> list[bool]:
        tasks = [asyncio.ensure_future(deaf()), asyncio.ensure_future(failing())]
        await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE):
            await shielding.cancel_until_done(tasks)
        return [task.cancelled() for task in tasks]

    async def failing() -> None:
        raise ValueError("before anybody cancelled it")

    assert asyncio.run(ended()) == [True, False]
    assert "goes on after its cancellation" in caplog.text


@pytest.mark.parametrize(
    ("module", "part", "verb"),
    [(working, "prune_periodically", "work"), (relaying, "prune_periodically", "relay")],
    ids=["worker", "relay"],
)
def test_who_works_until_idle_ends_although_a_cancellation_was_lost(
    module: Any, part: str, verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, part, deaf)
    app = duly.Duly(f"sqlite:///{tmp_path}/jobs.db")

    async def worked(run: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE):
            await run()
        await app.aclose()

    asyncio.run(worked(getattr(app.aio, verb)))
