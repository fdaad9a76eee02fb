"""What a relay works with, put together by the application."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from duly.core.host import HOST, Host

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.outbox.registry import OutboxRegistry
    from duly.service.wakeup import Wakeup
    from duly.stores.store import Store


class RelayDependencies(NamedTuple):
    """The store, how messages are sent, who rings, and what nobody may read."""

    store: Store
    outgoing: OutboxRegistry
    wakeup: Wakeup
    secrets: Sequence[str]
    host: Host = HOST

    @property
    def many_writers(self) -> bool:
        """Whether two transactions can write at the same time."""
        return self.store.capabilities.concurrent_writers
