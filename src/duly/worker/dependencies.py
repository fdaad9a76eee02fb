"""What a worker is built from; the app puts it together."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from duly.core.host import HOST, Host
from duly.service.threads import THREADS, Threads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.inbox.route import Route
    from duly.jobs.registry import Registries
    from duly.jobs.schedule import Schedules
    from duly.service.wakeup import Wakeup
    from duly.stores.store import Store
    from duly.worker.run_job import ExecutionContext


class WorkerDependencies(NamedTuple):
    """The store, the handlers, and where their transactions are opened."""

    store: Store
    registries: Registries
    routes: Mapping[str, Route]
    wakeup: Wakeup
    sync_context: ExecutionContext
    async_context: ExecutionContext
    # How many handler transactions may be open, by mode; under "any" where there is one writer.
    transactions: Mapping[str, int]
    schedules: Schedules
    host: Host = HOST
    threads: Threads = THREADS

    @property
    def many_writers(self) -> bool:
        """True if two transactions can write at the same time."""
        return self.store.capabilities.concurrent_writers
