"""duly as a user would write it: one source, one handler that runs later as a job, or many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duly
from benchmarks.ingesting.deliveries import SECRET, SOURCE, TYPE

if TYPE_CHECKING:
    from collections.abc import Callable

# Where the application of `duly serve` finds the URL of its database, and how many handlers it has.
STORE, HANDLERS = "DULY_BENCHMARK_STORE", "DULY_BENCHMARK_HANDLERS"


def remember(event: duly.Event) -> None:
    """What the jobs are for. It is never called where no worker runs."""


def application(
    url: str, handlers: int = 0, call: Callable[[duly.Event], None] = remember
) -> duly.Duly:
    """One handler of every event, or as many as are asked for, each of a type of its own."""
    app = duly.Duly(url)
    app.source(SOURCE, secret=SECRET)
    if not handlers:
        app.on(SOURCE)(call)
    for number in range(handlers):
        app.on(SOURCE, f"{TYPE}.{number}", name=f"remember-{number}")(call)
    return app
