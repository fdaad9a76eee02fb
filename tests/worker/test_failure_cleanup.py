"""What a failing handler left open is let go of when its failure is judged, not some time later."""

from __future__ import annotations

import gc
from contextlib import closing
from typing import TYPE_CHECKING
from weakref import ref

import pytest

import duly

if TYPE_CHECKING:
    from collections.abc import Iterator


class Open:
    """Stands for a connection, a file or a lock."""


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Circles stay for as long as the test lasts."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_failed_run_keeps_nothing_of_its_handler(colour: str) -> None:
    left: list[ref[Open]] = []

    def work() -> None:
        found = Open()
        left.append(ref(found))
        raise ValueError("it fails with something open")

    async def awaited() -> None:
        work()

    with closing(duly.Duly("memory:")) as app:
        app.job(name="work")(work if colour == "sync" else awaited)
        app.enqueue("work")
        assert app.work().dead == 1
        assert [one() for one in left] == [None]
