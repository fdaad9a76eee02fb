"""A relay for an application: how it sends, where the guard lets it go, and its thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.runtime.hosting import Hosted

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.app import Duly
    from duly.runtime.relaying.settings import RelaySettings
    from duly.runtime.relaying.tally import Relayed
    from duly.runtime.taking import Until


def hosted_relay(
    app: Duly,
    settings: RelaySettings,
    *,
    over: Callable[[], object],
    until: Until = "stopped",
    lasting: bool = False,
) -> Hosted[Relayed]:
    """A relay for an application, not started yet."""
    return Hosted(
        lambda: app.relaying(settings),
        app.release_loop,
        name="relay",
        until=until,
        lasting=lasting,
        over=over,
    )
