"""Getting messages: what to lease, when there is room for it, and what wakes an idle relay."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from duly.core.clock import MICROSECOND
from duly.core.defaults import WAIT
from duly.core.errors import DulyError, InProgress
from duly.outbox.lease import take
from duly.stores.shielding import shield_then_cancel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.outbox.lease import DestinationDemand
    from duly.relay.dependencies import RelayDependencies
    from duly.relay.dispatcher import Dispatcher
    from duly.relay.poller import Poller
    from duly.relay.settings import RelayPauses
    from duly.service.service_thread import Until

logger = logging.getLogger("duly")


class MessageFetcher:
    """Takes messages for as long as there is room, and something to send."""

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
        """Take messages until told to stop, or until there are none."""
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
                told("no messages could be taken, trying again: %s", problem)
                await self.sleep_until_woken(self._pauses.latest)

    async def _fetch_and_start(self) -> int:
        """Take messages and begin to send them; how many."""
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
        """Nothing could be taken: wait for a sign of work; whether the relay may end."""
        busy, looked = self._dispatcher.busy, self._poller
        if until == "idle" and looked.found_nothing and not busy and not self.wake_event.is_set():
            return True
        pause, self._pause = self._pause, min(2 * self._pause, self._pauses.latest)
        if busy:
            pause = self._pauses.latest
        if looked.next_in is not None:
            pause = min(pause, max(looked.next_in / 1_000_000, self._pauses.soonest))
        if not await self.sleep_until_woken(looked.pause_between_polls(pause)) or not busy:
            looked.poll_next_round()
        return False

    async def sleep_until_woken(self, seconds: float) -> bool:
        """Wait, but not longer than until something stirs; whether something did."""
        try:
            async with asyncio.timeout(seconds):
                return await self.wake_event.wait()
        except TimeoutError:
            return False
