"""Getting messages: what to lease, when there is room for it, and what wakes an idle relay."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from duly.core.clock import MICROSECOND
from duly.core.defaults import WAIT
from duly.core.errors import DulyError, Held
from duly.outbox.lease import take
from duly.stores.shielding import to_its_end

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.outbox.lease import Want
    from duly.relay.dependencies import RelayParts
    from duly.relay.dispatcher import Dispatcher
    from duly.relay.poller import Lookout
    from duly.service.service_thread import Until

logger = logging.getLogger("duly")
# Seconds between two looks where nothing wakes the relay: short at first, longer while idle.
SOONEST, LATEST = 0.02, 0.5


class Taker:
    """Takes messages for as long as there is room, and something to send."""

    def __init__(self, parts: RelayParts, lookout: Lookout, dispatcher: Dispatcher) -> None:
        self._parts = parts
        self._runner = parts.store.awaited
        self._lookout = lookout
        self._dispatcher = dispatcher
        self._depot = dispatcher.depot
        self._lease = dispatcher.term.length // MICROSECOND
        self.stirred = asyncio.Event()
        self.stopping = asyncio.Event()
        self._pause = SOONEST

    async def run(self, until: Until) -> None:
        """Take messages until told to stop, or until there are none."""
        while not self.stopping.is_set():
            self.stirred.clear()
            try:
                if self._dispatcher.full:
                    await self.nap(LATEST)
                elif await self._round():
                    self._pause = SOONEST
                elif await self._rest(until):
                    return
            except DulyError as problem:
                # Held: another process is writing to SQLite, which is how it works.
                told = logger.debug if isinstance(problem, Held) else logger.warning
                told("no messages could be taken, trying again: %s", problem)
                await self.nap(LATEST)

    async def _round(self) -> int:
        """Take messages and begin to send them; how many."""
        begun = self._dispatcher.start()
        if not await self._lookout.look_if_due():
            return begun
        wants = self._depot.wants()
        if wants:  # to its end: what the database has leased must not be forgotten
            begun += await to_its_end(self._take(wants))
        elif not self._depot.held:
            self._lookout.look_next()  # nothing is known to be left
            return begun or 1
        return begun + self._dispatcher.start()

    async def _take(self, wants: Sequence[Want]) -> int:
        length, asked = self._lease, time.monotonic()
        run = self._runner.run_single if self._parts.many_writers else self._runner.run
        leases = await run(lambda session: take(session, wants, length), wait=WAIT)
        self._depot.took(wants, leases, asked)
        return len(leases)

    async def _rest(self, until: Until) -> bool:
        """Nothing could be taken: wait for a sign of work; whether the relay may end."""
        busy, looked = self._dispatcher.busy, self._lookout
        if until == "idle" and looked.nothing and not busy and not self.stirred.is_set():
            return True
        pause, self._pause = self._pause, min(2 * self._pause, LATEST)
        if busy:
            pause = LATEST
        if looked.next_in is not None:
            pause = min(pause, max(looked.next_in / 1_000_000, SOONEST))
        if not await self.nap(looked.patience(pause)) or not busy:
            looked.look_next()
        return False

    async def nap(self, seconds: float) -> bool:
        """Wait, but not longer than until something stirs; whether something did."""
        try:
            async with asyncio.timeout(seconds):
                return await self.stirred.wait()
        except TimeoutError:
            return False
