"""The worker and the relay of a process: what they would do for an application, and their threads.

Nothing of a web server is needed here: `duly worker` and `duly relay` use it too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict

from duly.jobs.handlers import QUEUE
from duly.service.service_thread import ServiceTask, ServiceThread, keep_connections
from duly.worker.settings import CONCURRENCY, LEASE, worker_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping
    from typing import Unpack

    from duly.app.duly import Duly
    from duly.core.json_bytes import Json
    from duly.jobs.handlers import Handler
    from duly.outbox.registry import OutboxRegistry
    from duly.relay.settings import RelaySettings
    from duly.relay.stats import Relayed
    from duly.service.service_thread import Until
    from duly.worker.settings import WorkerSettings
    from duly.worker.stats import Worked

# Names that a line for people lists; --json lists them all.
MOST_NAMED = 10


# The worker


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """Which queues a worker would serve, how many jobs of each at a time, and by which handlers."""

    queues: Mapping[str, int]
    handlers: tuple[str, ...]
    # Queues of handlers that are left to other workers.
    others: tuple[str, ...]

    def settings(self, grace: float, lease: timedelta = LEASE) -> WorkerSettings:
        """Return the settings of a worker with this plan."""
        return worker_settings(CONCURRENCY, self.queues, lease, timedelta(seconds=grace))

    def text(self) -> str:
        """Describe the plan for people."""
        queues = ", ".join(f"{name} ({count} at a time)" for name, count in self.queues.items())
        text = f"{'queue' if len(self.queues) == 1 else 'queues'} {queues}: "
        text += ", ".join(self.handlers) or "no handlers"
        return text + (f"; left to others: {', '.join(self.others)}" if self.others else "")

    def members(self) -> dict[str, Json]:
        """Describe the plan for programs."""
        return {
            "queues": dict(self.queues),
            "handlers": list(self.handlers),
            "others": list(self.others),
        }


def job_handlers(app: Duly) -> list[Handler]:
    """Return the handlers that run as jobs; those of an inline source do not."""
    deferred = [
        handler
        for route in app.router.routes.values()
        if not route.inline
        for handler in route.handlers.all()
    ]
    return [*app.registries.jobs.plain.values(), *deferred]


def plan_worker(
    app: Duly, concurrency: int, queues: Mapping[str, int | None] | None = None
) -> WorkerPlan | None:
    """Plan a worker for these queues, or for all that handlers name; None without handlers."""
    handlers = job_handlers(app)
    if not handlers:
        return None
    used = {handler.queue for handler in handlers}
    every = [QUEUE, *sorted(used - {QUEUE})]
    chosen = dict.fromkeys(every) if queues is None else queues
    return WorkerPlan(
        {name: concurrency if count is None else count for name, count in chosen.items()},
        tuple(dict.fromkeys(one.name for one in handlers if one.queue in chosen)),
        tuple(queue for queue in every if queue in used and queue not in chosen),
    )


# The relay


def relay_text(registry: OutboxRegistry, settings: RelaySettings) -> str:
    """Describe how a relay sends, and where it may send to, for people."""
    return "; ".join(
        [
            f"{settings.concurrency} messages at a time ({settings.per_destination} to one host)",
            f"transports: {shorten_list(['https', *registry.transports])}",
            f"signers: {shorten_list(registry.signers)}",
            f"allowed beside the outside world: {shorten_list(registry.egress.allow)}",
        ]
    )


def relay_members(registry: OutboxRegistry, settings: RelaySettings) -> dict[str, Json]:
    """Describe the same for programs."""
    return {
        "concurrency": settings.concurrency,
        "per_destination": settings.per_destination,
        "transports": [*registry.transports],
        "signers": [*registry.signers],
        "allow": [*registry.egress.allow],
    }


def shorten_list(names: Iterable[str]) -> str:
    """Return the first names, and how many more there are."""
    every = list(names)
    more = len(every) - MOST_NAMED
    shown = ", ".join(every[:MOST_NAMED]) or "none"
    return f"{shown} and {more} more" if more > 0 else shown


# Both


class ServiceOptions(TypedDict, total=False):
    """How a worker or a relay runs on its thread; see `ServiceThread`."""

    on_end: Callable[[], object]
    until: Until
    restart_on_error: bool


def worker_service(
    app: Duly, settings: WorkerSettings, *, in_loop: bool = False, **how: Unpack[ServiceOptions]
) -> ServiceThread[Worked]:
    """Make a worker for an application, not started; on a thread, or in the running event loop."""
    kind, release = service_kind(app, in_loop=in_loop)
    return kind(lambda: app.process.worker(settings), release, **how)


def relay_service(
    app: Duly, settings: RelaySettings, *, in_loop: bool = False, **how: Unpack[ServiceOptions]
) -> ServiceThread[Relayed]:
    """Make a relay for an application, not started; on a thread, or in the running event loop."""
    kind, release = service_kind(app, in_loop=in_loop)
    return kind(lambda: app.process.relay(settings), release, name="relay", **how)


def service_kind(
    app: Duly, *, in_loop: bool
) -> tuple[type[ServiceThread[Any]], Callable[[], Coroutine[Any, Any, None]]]:
    """Return the class of a service, and what gives back the connections of its event loop."""
    if in_loop:
        return ServiceTask, keep_connections
    return ServiceThread, app.process.release_loop
