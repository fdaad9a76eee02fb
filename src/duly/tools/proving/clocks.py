"""The time of a proof: the machine's, or as far from it as the application's own clock is.

A clock that stands still, as tests like it, would begin anew in every process of a case: no lease
could run out by it, and what one process enqueued would not be due for the next. So the time of a
proof always goes on, from wherever the application's clock stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from duly.stores.opening import store
from duly.stores.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from duly._kernel.clock import Clock
    from duly.app import Duly
    from duly.stores.base import Store


@dataclass(frozen=True, slots=True)
class Shifted:
    """A clock that goes as the machine's does, ahead of it or behind."""

    ahead: timedelta

    def __call__(self) -> datetime:
        """Look at it."""
        return datetime.now(UTC) + self.ahead


def ahead_of_machine(app: Duly) -> timedelta | None:
    """How far the application's clock is ahead; None where it has none of its own."""
    clock = app.store.clock
    return None if clock is None else clock() - datetime.now(UTC)


def going_by(app: Duly, ahead: timedelta) -> AbstractContextManager[Duly]:
    """The application on its own database, by a clock that goes on."""
    return app.bound_to(store_by(app, Shifted(ahead)))


def store_by(app: Duly, clock: Clock) -> Store:
    """The store of an application with another clock."""
    known = app.store
    if isinstance(known, SqliteStore):
        durable = known.capabilities.durable
        found: Store = SqliteStore(known.url, known._path, known.names, clock, durable=durable)
    else:
        found = store(
            known.url,
            prefix=known.names.prefix,
            schema=known.names.schema,
            clock=clock,
            durability="required" if known.strict else "any",
            connections=app._connections,
        )
    found.strict = known.strict
    return found
