"""The time of a proof: the machine's, that of the application's own clock, or that of the event.

A clock that stands still, as tests like it, would begin anew in every process of a case: no lease
could run out by it, and what one process enqueued would not be due for the next. So the time of a
proof always goes on, from wherever the application's clock stands. And an event that was recorded
long ago, which an application of today would put aside, is proved at its own time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from duly.stores.open import store
from duly.stores.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from duly.app.duly import Duly
    from duly.core.clock import Clock
    from duly.prove.asks import Ask
    from duly.stores.store import Store


@dataclass(frozen=True, slots=True)
class ShiftedClock:
    """A clock that goes as the machine's does, ahead of it or behind."""

    ahead: timedelta

    def __call__(self) -> datetime:
        """Look at it."""
        return datetime.now(UTC) + self.ahead


class ProofTime(NamedTuple):
    """The time of a proof."""

    # How far it is ahead of the machine's; None where the database's own is good.
    ahead: timedelta | None = None
    notes: tuple[str, ...] = ()


def time_for(app: Duly, asks: Sequence[Ask]) -> ProofTime:
    """The application's own time, or else that of the latest event, where one is too old."""
    ages = [ask.age(app) for ask in asks]
    moments = [age.moment for age in ages if age.moment is not None]
    if moments and any(age.forgotten for age in ages):
        return ProofTime(
            max(moments) - datetime.now(UTC),
            (
                f"the event is of {max(moments):%Y-%m-%d}, before what its source remembers "
                "(window=), so that it was proved at its own time",
            ),
        )
    clock = app.store.clock
    return ProofTime(None if clock is None else clock() - datetime.now(UTC))


def with_shifted_clock(app: Duly, ahead: timedelta) -> AbstractContextManager[Duly]:
    """The application on its own database, by a clock that goes on."""
    return app.bound_to(store_with_clock(app, ShiftedClock(ahead)))


def store_with_clock(app: Duly, clock: Clock) -> Store:
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
