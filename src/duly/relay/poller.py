"""Polling the outbox: which destinations have messages, and which leases are lost."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from duly.core.clock import MICROSECOND
from duly.core.defaults import WAIT
from duly.core.errors import DulyError, InProgress
from duly.outbox.lease import (
    RESCUED_AT_ONCE,
    next_destinations,
    peek_outbox,
    rescue,
    stage_due,
    take,
)
from duly.outbox.registry import is_web
from duly.stores.shielding import shield_then_cancel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from duly.core.retry import Backoff
    from duly.core.session import Runner, Session
    from duly.outbox.lease import DestinationDemand
    from duly.relay.destination import Destinations
    from duly.relay.dispatcher import Dispatcher
    from duly.relay.settings import RelayDependencies, RelayPauses, RelaySettings
    from duly.relay.stats import Relayed
    from duly.service.service_thread import Until

logger = logging.getLogger("duly")
# Seconds between two polls for further destinations, and for due messages, while it is busy.
POLL_INTERVAL = 0.25
# The pause is at least so many times what a poll takes, up to so many seconds.
POLL_COST_FACTOR, LONGEST_POLL_PAUSE = 10.0, 5.0
NEVER = float("-inf")


class Poller:
    """Finds destinations with due messages, without leasing any."""

    def __init__(
        self,
        dependencies: RelayDependencies,
        settings: RelaySettings,
        destinations: Destinations,
        rescuer: Rescuer,
    ) -> None:
        self._monotonic = dependencies.host.monotonic
        self._runner = dependencies.store.async_runner
        self._transports = dependencies.outgoing.transports
        self._at_once = 2 * settings.concurrency
        self._destinations = destinations
        self._rescuer = rescuer
        # Transports that this process does not have, each logged once.
        self._unknown_transports: set[str] = set()
        # Seconds that the last poll took.
        self._poll_seconds = 0.0
        self._after = ""
        self._polled_at = NEVER
        # True if the wake-up rang since the last poll.
        self.notified = False
        # Whether this round's poll found nothing due, and in how many microseconds there is more.
        self.found_nothing = False
        self.next_in: int | None = None

    def notify(self) -> None:
        """A message was staged: the next round polls, however busy it is."""
        self.notified = True

    def poll_next_round(self) -> None:
        """Have the next round poll."""
        self._polled_at = NEVER

    def pause_between_polls(self, seconds: float) -> float:
        """Return the pause before the next poll: longer if polls are expensive.

        A sent message stays in the indexes for as long as any open transaction could see it, and
        every poll walks through it.
        """
        return max(seconds, min(POLL_COST_FACTOR * self._poll_seconds, LONGEST_POLL_PAUSE))

    async def poll_if_due(self) -> bool:
        """Poll if it is time to; return False if the poll found no destination."""
        self.found_nothing = False
        due = self.notified or self._monotonic() - self._polled_at > self.pause_between_polls(
            POLL_INTERVAL
        )
        return not due or await self._poll()

    async def _poll(self) -> bool:
        """Find the next destinations with due messages; return True if there are any."""
        begun, self.notified = self._monotonic(), False
        try:
            return await self._poll_outbox()
        finally:
            self._poll_seconds = self._monotonic() - begun

    async def _poll_outbox(self) -> bool:
        seen = await self._runner.run_autocommit(peek_outbox, wait=WAIT)
        self.next_in = seen.next_in
        if seen.lost:
            await self._rescuer.rescue_now()
        soon = seen.next_in is not None and seen.next_in <= 0
        if not seen.due and not soon:  # a poll takes no lock, which matters on SQLite
            self.found_nothing = True
            return False
        found = await self._find_destinations()
        for destination in found:
            self._destinations.get_or_create(destination).restart_scan()
        self._destinations.forget_idle()
        self.found_nothing = not found and not self._after
        return bool(found)

    async def _find_destinations(self) -> list[str]:
        """Return the next destinations by name, after those of the last poll."""
        skipped = [one.name for one in self._destinations.by_name.values() if one.room == 0]
        skipped += self._unknown_transports
        after, most = self._after, self._at_once

        async def poll(session: Session) -> list[str]:
            await stage_due(session)
            return await next_destinations(session, after, skipped, most)

        named = await self._runner.run_autocommit(poll, wait=WAIT)
        found = [one for one in named if self._can_send_to(one)]
        self._after = named[-1] if len(named) >= most else ""
        # Destinations before these may have messages, too: then the next round polls.
        self._polled_at = NEVER if after and not self._after else self._monotonic()
        if not found and after:
            return await self._find_destinations()
        return found

    def _can_send_to(self, destination: str) -> bool:
        """True if this process can send there; another may, or the next deploy."""
        if is_web(destination) or destination in self._transports:
            return True
        self._unknown_transports.add(destination)
        logger.warning(
            "messages to %s:… wait: this relay has no such transport",
            destination,
        )
        return False


class Rescuer:
    """Takes back messages whose leases have run out."""

    def __init__(self, runner: Runner, relayed: Relayed, backoff: Backoff, dice: Random) -> None:
        self._runner = runner
        self._relayed = relayed
        self._backoff = backoff
        self._random = dice

    async def rescue_now(self) -> None:
        """Take back every lease that has run out."""
        while True:
            rows = await self._runner.run_autocommit(
                lambda session: rescue(session, self._backoff), wait=WAIT
            )
            for row in rows:
                self._relayed.count_rescued(row["destination"])
                told = logger.error if row["state"] == "dead" else logger.warning
                told(
                    "message %s to %s was taken back from a lost relay, rescue %s: it is %s",
                    row["id"],
                    row["destination"],
                    row["rescues"],
                    "dead" if row["state"] == "dead" else "sent again, with the same id",
                )
            if len(rows) < RESCUED_AT_ONCE:
                return

    async def run(self, pause: Callable[[], float]) -> None:
        """Rescue for as long as the relay runs; ``pause`` returns the seconds in between."""
        while True:
            await asyncio.sleep(pause() * (0.75 + self._random.random() / 2))
            try:
                await self.rescue_now()
            except DulyError as problem:
                logger.warning("expired leases were not rescued, trying again: %s", problem)


class MessageFetcher:
    """Leases messages while there is room for them."""

    def __init__(
        self,
        dependencies: RelayDependencies,
        poller: Poller,
        dispatcher: Dispatcher,
        pauses: RelayPauses,
    ) -> None:
        self._dependencies = dependencies
        self._runner = dependencies.store.async_runner
        self._poller = poller
        self._dispatcher = dispatcher
        self._destinations = dispatcher.destinations
        self._lease = dispatcher.lease_clock.length // MICROSECOND
        self.wake_event = asyncio.Event()
        self.stopping = asyncio.Event()
        self._pauses = pauses
        self._pause = pauses.soonest

    async def run(self, until: Until) -> None:
        """Lease messages until told to stop, or until there are none."""
        while not self.stopping.is_set():
            self.wake_event.clear()
            try:
                if self._dispatcher.full:
                    await self.sleep_until_woken(self._pauses.latest)
                elif await self._fetch_and_start():
                    self._pause = self._pauses.soonest
                elif await self._wait_for_work(until):
                    return
            except DulyError as problem:
                # InProgress: another process is writing to SQLite, which is how it works.
                told = logger.debug if isinstance(problem, InProgress) else logger.warning
                told("no messages could be leased, trying again: %s", problem)
                await self.sleep_until_woken(self._pauses.latest)

    async def _fetch_and_start(self) -> int:
        """Lease messages and start to send them; return how many."""
        begun = self._dispatcher.start()
        if not await self._poller.poll_if_due():
            return begun
        wants = self._destinations.wants()
        if wants:  # to its end: what the database has leased must not be forgotten
            begun += await shield_then_cancel(self._fetch_batch(wants))
        elif not self._destinations.leased_count:
            self._poller.poll_next_round()  # nothing is known to be left
            return begun or 1
        return begun + self._dispatcher.start()

    async def _fetch_batch(self, wants: Sequence[DestinationDemand]) -> int:
        length, asked = self._lease, self._dependencies.host.monotonic()
        run = self._runner.run_autocommit if self._dependencies.many_writers else self._runner.run
        leases = await run(lambda session: take(session, wants, length), wait=WAIT)
        self._destinations.record_batch(wants, leases, asked)
        return len(leases)

    async def _wait_for_work(self, until: Until) -> bool:
        """Sleep until there may be work; return True if the relay may end."""
        busy, poller = self._dispatcher.busy, self._poller
        if until == "idle" and poller.found_nothing and not busy and not self.wake_event.is_set():
            return True
        pause, self._pause = self._pause, min(2 * self._pause, self._pauses.latest)
        if busy:
            pause = self._pauses.latest
        if poller.next_in is not None:
            pause = min(pause, max(poller.next_in / 1_000_000, self._pauses.soonest))
        if not await self.sleep_until_woken(poller.pause_between_polls(pause)) or not busy:
            poller.poll_next_round()
        return False

    async def sleep_until_woken(self, seconds: float) -> bool:
        """Sleep until woken or ``seconds`` pass; return True if woken."""
        try:
            async with asyncio.timeout(seconds):
                return await self.wake_event.wait()
        except TimeoutError:
            return False
