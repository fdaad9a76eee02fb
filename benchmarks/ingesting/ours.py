"""duly as a user would write it: one source, one handler that runs later as a job."""

from __future__ import annotations

import duly
from benchmarks.ingesting.deliveries import SECRET, SOURCE

# Where the application of `duly serve` finds the URL of its database.
STORE = "DULY_BENCHMARK_STORE"


def remember(event: duly.Event) -> None:
    """What the jobs are for. It is never called here, for no worker runs."""


def application(url: str) -> duly.Duly:
    app = duly.Duly(url)
    app.source(SOURCE, secret=SECRET)
    app.on(SOURCE)(remember)
    return app
