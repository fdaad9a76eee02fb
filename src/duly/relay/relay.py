"""The relay: from the first look at the outbox to the last message whose end is written."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from duly.core.errors import DulyError, Held, StoreUnavailable
from duly.relay.dispatcher import Dispatcher
from duly.relay.fetcher import LATEST, Taker
from duly.relay.heartbeat import Heartbeat
from duly.relay.poller import Lookout
from duly.relay.rescue import Rescuer
from duly.relay.sender import Sender
from duly.service.maintenance import counting, pruning
from duly.stores.shielding import end_surely, surely

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from duly.relay.dependencies import RelayParts
    from duly.relay.settings import RelaySettings
    from duly.relay.stats import Relayed
    from duly.service.service_thread import Until

logger = logging.getLogger("duly")
# Seconds for a database that is busy or restarting when a relay begins.
STARTING = 20.0
# Seconds between two looks for lost leases, where the leases themselves are long.
RESCUING = 5.0
# Seconds between two looks at the clock while it ends.
WATCH = 0.1


class Relay:
    """One process's share of the sending, in one event loop."""

    def __init__(
        self, parts: RelayParts, settings: RelaySettings, sender: Sender | None = None
    ) -> None:
        self._runner = parts.store.awaited
        self._bell = parts.bell
        self._grace = settings.grace.total_seconds()
        # Tests have one that only remembers what it was given.
        self._sender = Sender(parts.outgoing) if sender is None else sender
        self._dispatcher = Dispatcher(
            parts, settings, self._sender, stirred=self._stir, stop=self._stop
        )
        self._rescuer = Rescuer(self._runner, self.relayed)
        self._lookout = Lookout(parts, settings, self._dispatcher.depot, self._rescuer)
        self._taker = Taker(parts, self._lookout, self._dispatcher)
        self._heartbeat = Heartbeat(self._runner)
        self._hurried = False
        self._failed: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def relayed(self) -> Relayed:
        """What became of the messages so far."""
        return self._dispatcher.relayed

    def stop(self) -> None:
        """Take no more messages, and end when those on their way are through. From any thread."""
        self._from_outside(self._stop)

    def stop_now(self) -> None:
        """Give back what is on its way, and end. From any thread."""
        self._hurried = True
        self.stop()

    def wake(self) -> None:
        """Look for messages now. From any thread."""
        if not self._lookout.rung:
            self._from_outside(self._ring)

    def _stop(self) -> None:
        self._taker.stopping.set()
        self._stir()

    def _ring(self) -> None:
        self._lookout.ring()
        self._stir()

    def _stir(self) -> None:
        self._taker.stirred.set()

    def _from_outside(self, call: Callable[[], None]) -> None:
        if self._loop is None:  # it has not begun, and nobody else touches it
            call()
            return
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # its event loop is closed: it has ended
            return

    async def run(self, until: Until = "stopped") -> Relayed:
        """Send until there is nothing to send now, or until told to stop."""
        self._loop = asyncio.get_running_loop()
        self._bell.add(self.wake)
        helpers = [self._loop.create_task(work) for work in self._helpers(until)]
        for helper in helpers:
            helper.add_done_callback(self._hear_helper)
        try:
            await asyncio.to_thread(self._sender.prepare)
            if await self._patiently():
                await self._taker.run(until)
            await self._drain()
        except BaseException:  # cancelled, or worse: what is held is given back
            await surely(self._dispatcher.abandon())
            raise
        finally:
            await surely(self._end(helpers))
        if self._failed is not None:
            raise self._failed
        return self.relayed

    def _helpers(self, until: Until) -> list[Coroutine[Any, Any, None]]:
        """What goes on beside the sending itself.

        A relay that ends by itself has no heartbeat: messages that are staged later wait again.
        """
        pause = min(self._dispatcher.term.seconds / 4, RESCUING)
        return [
            *([self._heartbeat.run()] if until == "stopped" else []),
            self._rescuer.run(lambda: self._lookout.patience(pause)),
            counting(self._runner, self.relayed),
            pruning(self._runner),
        ]

    def _hear_helper(self, helper: asyncio.Task[None]) -> None:
        """What goes on beside the work must not end in silence."""
        problem = None if helper.cancelled() else helper.exception()
        if problem is not None:
            logger.critical("a part of this relay failed, it ends: %r", problem)
            self._failed = problem
            self._stop()

    async def _patiently(self) -> bool:
        """Begin although the database is busy or restarting just now, but not if it stays away.

        Returns whether it has begun: one that is told to stop before that owes nothing to anybody.
        """
        until = time.monotonic() + STARTING
        while True:
            try:
                await self._rescuer.rescue_now()
            except (Held, StoreUnavailable) as problem:
                if self._taker.stopping.is_set():
                    return False
                if time.monotonic() > until:
                    raise
                logger.warning("the relay cannot begin yet, trying again: %s", problem)
                await self._taker.nap(LATEST)
            else:
                return True

    async def _drain(self) -> None:
        """Release what was not begun, let the rest arrive, and give that back when time is up."""
        until = time.monotonic() + self._grace
        dispatcher = self._dispatcher
        dispatcher.release_unstarted()
        while dispatcher.depot.running() and not self._hurried and time.monotonic() < until:
            self._taker.stirred.clear()
            await self._taker.nap(WATCH)
        left = 0.0 if self._hurried else max(until - time.monotonic(), 0.0)
        await dispatcher.abandon(left)

    async def _end(self, helpers: Sequence[asyncio.Task[None]]) -> None:
        self._bell.remove(self.wake)
        await end_surely(helpers)
        await self._sender.close()
        try:
            await self.relayed.flush(self._runner)
            await self._heartbeat.end()
        except DulyError as problem:
            logger.warning("the last counters could not be written: %s", problem)
