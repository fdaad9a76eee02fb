"""Somebody else who keeps the lock that duly needs: SQLite's only one, or rows of PostgreSQL."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from duly.jobs import effects
from duly.worker import run_job, version_completer
from tests.support.processes.leading import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    import pytest

    from tests.jobs.enqueue.desks import Desk


class Elsewhere:
    """Another transaction of the same application, on a thread of its own."""

    def __init__(self, desk: Desk, rows: str = "duly_versions") -> None:
        self._app = desk.app
        locking = "FOR UPDATE" if desk.app.store.capabilities.concurrent_writers else ""
        self._statement = f"SELECT 1 FROM {rows} {locking}"

    def hold(self, seconds: float) -> None:
        """Return once it has the lock, which it lets go of after a while."""
        ready = threading.Event()

        def keep() -> None:
            with self._app.transaction() as tx:
                tx.execute(self._statement)
                ready.set()
                time.sleep(seconds)  # not for luck: so long it has the lock

        threading.Thread(target=keep).start()
        assert ready.wait(5)


def impatient(monkeypatch: pytest.MonkeyPatch, wait: timedelta) -> None:
    """Have each wait for a lock in or around a handler last this long only."""
    for module in (run_job, version_completer, effects):
        monkeypatch.setattr(module, "WAIT", wait)


def worked_off(desk: Desk, through: Callable[[], bool]) -> None:
    """Work until it is so; what is put off is not waited for by ``work`` itself."""

    def look() -> bool | None:
        desk.work()
        return through() or None

    until(look)
