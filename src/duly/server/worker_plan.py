"""What a worker would do for an application: its queues, and the handlers that run as jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from duly.jobs.handlers import QUEUE
from duly.service.service_thread import ServiceTask, ServiceThread, keep_connections
from duly.worker.settings import CONCURRENCY, LEASE, worker_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duly.app.duly import Duly
    from duly.core.json_bytes import Json
    from duly.jobs.handlers import Handler
    from duly.service.service_thread import Until
    from duly.worker.settings import WorkerSettings
    from duly.worker.stats import Worked


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """How one worker would work: queues with their concurrency, and who handles what is there."""

    queues: Mapping[str, int]
    handlers: tuple[str, ...]
    # Queues of handlers that are left to other workers.
    others: tuple[str, ...]

    def settings(self, grace: float, lease: timedelta = LEASE) -> WorkerSettings:
        """What a worker of this plan is told."""
        return worker_settings(CONCURRENCY, self.queues, lease, timedelta(seconds=grace))

    def text(self) -> str:
        """For a person."""
        queues = ", ".join(f"{name} ({count} at a time)" for name, count in self.queues.items())
        told = f"{'queue' if len(self.queues) == 1 else 'queues'} {queues}: "
        told += ", ".join(self.handlers) or "no handlers"
        return told + (f"; left to others: {', '.join(self.others)}" if self.others else "")

    def members(self) -> dict[str, Json]:
        """For a program."""
        return {
            "queues": dict(self.queues),
            "handlers": list(self.handlers),
            "others": list(self.others),
        }


def job_handlers(app: Duly) -> list[Handler]:
    """The handlers that run as jobs; those of an inline source do not."""
    deferred = [
        handler
        for route in app.site.routes.values()
        if not route.inline
        for handler in route.handlers.all()
    ]
    return [*app.registry.plain.values(), *deferred]


def plan_worker(
    app: Duly, concurrency: int, queues: Mapping[str, int | None] | None = None
) -> WorkerPlan | None:
    """A worker for these queues, or else for all that handlers name; None without a job to do."""
    handlers = job_handlers(app)
    if not handlers:
        return None
    named = sorted({handler.queue for handler in handlers} - {QUEUE})
    chosen = dict.fromkeys([QUEUE, *named]) if queues is None else queues
    return WorkerPlan(
        {name: concurrency if count is None else count for name, count in chosen.items()},
        tuple(dict.fromkeys(one.name for one in handlers if one.queue in chosen)),
        tuple(
            queue
            for queue in [QUEUE, *named]
            if queue not in chosen and has_handler_for(queue, handlers)
        ),
    )


def has_handler_for(queue: str, handlers: list[Handler]) -> bool:
    """Whether some handler's jobs wait there."""
    return any(handler.queue == queue for handler in handlers)


def worker_service(
    app: Duly,
    settings: WorkerSettings,
    *,
    over: Callable[[], object],
    until: Until = "stopped",
    lasting: bool = False,
    in_loop: bool = False,
) -> ServiceThread[Worked]:
    """A worker for an application, not started yet; on a thread, or in the running event loop."""
    kind = ServiceTask if in_loop else ServiceThread
    return kind(
        lambda: app.process.worker(settings),
        keep_connections if in_loop else app.process.release_loop,
        until=until,
        restart_on_error=lasting,
        on_end=over,
    )
