"""``app.outbox``: what was staged and not sent, for code that blocks and awaited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.core.onestep import finish
from duly.core.validation import checked_count
from duly.jobs.tx_guard import refuse_inside
from duly.ledger.dead_filters import MOST_SHOWN, SHOWN, checked_id
from duly.ledger.replay import replay
from duly.outbox.dead import discard_dead, find_message, list_dead, message_selection, plan_of
from duly.outbox.stats import count_messages

if TYPE_CHECKING:
    from datetime import datetime

    from duly.ledger.replay import Replayed
    from duly.outbox.dead import DeadMessage, OutboxMessage
    from duly.outbox.stats import OutboxStats
    from duly.service.wakeup import Wakeup
    from duly.stores.store import Store

INSTEAD = "call it outside of the handler, or in a job without tx"


class Outbox:
    """``app.outbox``: what was staged and not sent."""

    def __init__(self, store: Store, bell: Wakeup) -> None:
        self._store = store
        self._wakeup = bell

    def dead(
        self,
        message_id: str | None = None,
        *,
        destination: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = SHOWN,
    ) -> list[DeadMessage]:
        """Dead messages, the latest first: given up, with their last error.

        Args:
            message_id: only this one.
            destination: only those to this origin (``https://example.com``; of a URL, its origin)
                or transport.
            since: only those that were given up then or later.
            until: only those that were given up before.
            limit: how many at most.
        """
        which = message_selection(message_id, destination=destination, since=since, until=until)
        return finish(list_dead(self._store.blocking, which, checked_limit(limit)))

    def replay(
        self,
        message_id: str | None = None,
        *,
        destination: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        all: bool = False,
        dry_run: bool = False,
        rate: float | None = None,
    ) -> Replayed:
        """Make dead messages ready again, with all their attempts before them; ids and keys stay.

        Each is replayed once, however many callers ask at the same time.

        Args:
            message_id: one message; or choose by what follows.
            destination: those to this origin or transport.
            since: those that were given up then or later.
            until: those that were given up before.
            all: every dead message there is.
            dry_run: only say which.
            rate: how many may be sent in a second: the times are written with the messages.
        """
        which = message_selection(message_id, destination=destination, since=since, until=until)
        plan = plan_of(which, rate, dry_run=dry_run, everything=all)
        refuse_inside("app.outbox.replay", INSTEAD)
        done = finish(replay(self._store.blocking, plan))
        self._wakeup.notify(("messages",))
        return done

    def find(self, message_id: str) -> OutboxMessage | None:
        """A message that is not sent yet, with its state and last error; None if it has left."""
        message = checked_id(message_id, "message")
        return finish(find_message(self._store.blocking, message))

    def discard(self, message_id: str) -> bool:
        """Delete a dead message for good; the history remembers that. False where it is not."""
        return finish(discard_dead(self._store.blocking, message_to_discard(message_id)))

    def stats(self) -> OutboxStats:
        """How many messages are ready, waiting, leased and dead, for each destination."""
        return finish(count_messages(self._store.blocking))


class AsyncOutbox:
    """The same awaited: ``app.aio.outbox``."""

    def __init__(self, store: Store, bell: Wakeup) -> None:
        self._store = store
        self._wakeup = bell

    async def dead(
        self,
        message_id: str | None = None,
        *,
        destination: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = SHOWN,
    ) -> list[DeadMessage]:
        """Dead messages, the latest first: given up, with their last error."""
        which = message_selection(message_id, destination=destination, since=since, until=until)
        return await list_dead(self._store.awaited, which, checked_limit(limit))

    async def replay(
        self,
        message_id: str | None = None,
        *,
        destination: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        all: bool = False,
        dry_run: bool = False,
        rate: float | None = None,
    ) -> Replayed:
        """Make dead messages ready again, with all their attempts before them."""
        which = message_selection(message_id, destination=destination, since=since, until=until)
        plan = plan_of(which, rate, dry_run=dry_run, everything=all)
        refuse_inside("app.aio.outbox.replay", INSTEAD)
        done = await replay(self._store.awaited, plan)
        self._wakeup.notify(("messages",))
        return done

    async def find(self, message_id: str) -> OutboxMessage | None:
        """A message that is not sent yet, with its state and last error; None if it has left."""
        return await find_message(self._store.awaited, checked_id(message_id, "message"))

    async def discard(self, message_id: str) -> bool:
        """Delete a dead message for good; the history remembers that. False where it is not."""
        return await discard_dead(self._store.awaited, message_to_discard(message_id))

    async def stats(self) -> OutboxStats:
        """How many messages are ready, waiting, leased and dead, for each destination."""
        return await count_messages(self._store.awaited)


def checked_limit(limit: object) -> int:
    """How many letters to show."""
    return checked_count("limit", limit, most=MOST_SHOWN)


def message_to_discard(message_id: object) -> str:
    """The message to discard, where that may be done."""
    message = checked_id(message_id, "message")
    refuse_inside("app.outbox.discard", INSTEAD)
    return message
