"""A relay for an application: how it sends, where the guard lets it go, and its thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.service.service_thread import ServiceTask, ServiceThread, keep_connections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from duly.app.duly import Duly
    from duly.core.json_bytes import Json
    from duly.outbox.registry import OutboxRegistry
    from duly.relay.settings import RelaySettings
    from duly.relay.stats import Relayed
    from duly.service.service_thread import Until

# A longer list is for programs.
MOST_NAMED = 10


def relay_service(
    app: Duly,
    settings: RelaySettings,
    *,
    over: Callable[[], object],
    until: Until = "stopped",
    lasting: bool = False,
    in_loop: bool = False,
) -> ServiceThread[Relayed]:
    """A relay for an application, not started yet; on a thread, or in the running event loop."""
    kind = ServiceTask if in_loop else ServiceThread
    return kind(
        lambda: app.process.relay(settings),
        keep_connections if in_loop else app.process.release_loop,
        name="relay",
        until=until,
        restart_on_error=lasting,
        on_end=over,
    )


def relay_text(outgoing: OutboxRegistry, settings: RelaySettings) -> str:
    """What a relay can do, for a person; where messages go is known when they are there."""
    return "; ".join(
        [
            f"{settings.concurrency} messages at a time ({settings.per_destination} to one host)",
            f"transports: {shorten_list(['https', *outgoing.transports])}",
            f"signers: {shorten_list(outgoing.signers)}",
            f"allowed beside the outside world: {shorten_list(outgoing.egress.allow)}",
        ]
    )


def relay_members(outgoing: OutboxRegistry, settings: RelaySettings) -> dict[str, Json]:
    """The same for a program."""
    return {
        "concurrency": settings.concurrency,
        "per_destination": settings.per_destination,
        "transports": [*outgoing.transports],
        "signers": [*outgoing.signers],
        "allow": [*outgoing.egress.allow],
    }


def shorten_list(names: Iterable[str]) -> str:
    """Some names, and how many more there are."""
    every = list(names)
    more = len(every) - MOST_NAMED
    told = ", ".join(every[:MOST_NAMED]) or "none"
    return f"{told} and {more} more" if more > 0 else told
