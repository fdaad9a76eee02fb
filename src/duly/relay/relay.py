"""The relay: from the first look at the outbox to the last message whose end is written."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from duly.core.errors import DulyError, InProgress, StoreUnavailable
from duly.relay.dispatcher import Dispatcher
from duly.relay.fetcher import MessageFetcher
from duly.relay.heartbeat import RelayHeartbeat
from duly.relay.poller import Poller
from duly.relay.rescue import Rescuer
from duly.relay.sender import Sender
from duly.service.maintenance import flush_counters_periodically, prune_periodically
from duly.stores.shielding import cancel_until_done, shield_to_end

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from duly.relay.dependencies import RelayDependencies
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
        self, dependencies: RelayDependencies, settings: RelaySettings, sender: Sender | None = None
    ) -> None:
        self._runner = dependencies.store.async_runner
        self._host = host = dependencies.host
        self._pauses = pauses = settings.pauses
        self._wakeup = dependencies.wakeup
        self._grace = settings.grace.total_seconds()
        # Tests have one that only remembers what it was given.
        self._sender = Sender(dependencies.outgoing) if sender is None else sender
        self._dispatcher = Dispatcher(
            dependencies, settings, self._sender, on_progress=self._wake_fetcher, stop=self._stop
        )
        self._rescuer = Rescuer(self._runner, self.relayed, pauses.rescue, host.random)
        self._poller = Poller(dependencies, settings, self._dispatcher.destinations, self._rescuer)
        self._fetcher = MessageFetcher(dependencies, self._poller, self._dispatcher, pauses)
        self._heartbeat = RelayHeartbeat(self._runner, host, pauses.heartbeat)
        self._stopping_now = False
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def relayed(self) -> Relayed:
        """What became of the messages so far."""
        return self._dispatcher.relayed

    def stop(self) -> None:
        """Take no more messages, and end when those on their way are through. From any thread."""
        self._call_in_loop(self._stop)

    def stop_now(self) -> None:
        """Give back what is on its way, and end. From any thread."""
        self._stopping_now = True
        self.stop()

    def wake(self) -> None:
        """Look for messages now. From any thread."""
        if not self._poller.notified:
            self._call_in_loop(self._notify_poller)

    def _stop(self) -> None:
        self._fetcher.stopping.set()
        self._wake_fetcher()

    def _notify_poller(self) -> None:
        self._poller.notify()
        self._wake_fetcher()

    def _wake_fetcher(self) -> None:
        self._fetcher.wake_event.set()

    def _call_in_loop(self, call: Callable[[], None]) -> None:
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
        self._wakeup.add_listener("messages", self.wake)
        helpers = [self._loop.create_task(work) for work in self._helpers(until)]
        for helper in helpers:
            helper.add_done_callback(self._on_helper_done)
        try:
            await asyncio.to_thread(self._sender.prepare)
            if await self._retry_until_started():
                await self._fetcher.run(until)
            await self._drain()
        except BaseException:  # cancelled, or worse: what is held is given back
            await shield_to_end(self._dispatcher.abandon())
            raise
        finally:
            await shield_to_end(self._end(helpers))
        if self._failure is not None:
            raise self._failure
        return self.relayed

    def _helpers(self, until: Until) -> list[Coroutine[Any, Any, None]]:
        """What goes on beside the sending itself.

        A relay that ends by itself has no heartbeat: messages that are staged later wait again.
        """
        pause = min(self._dispatcher.lease_clock.seconds / 4, RESCUING)
        return [
            *([self._heartbeat.run()] if until == "stopped" else []),
            self._rescuer.run(lambda: self._poller.pause_between_polls(pause)),
            flush_counters_periodically(self._runner, self.relayed, self._pauses.counters),
            prune_periodically(self._runner, self._host.random),
        ]

    def _on_helper_done(self, helper: asyncio.Task[None]) -> None:
        """What goes on beside the work must not end in silence."""
        problem = None if helper.cancelled() else helper.exception()
        if problem is not None:
            logger.critical("a part of this relay failed, it ends: %r", problem)
            self._failure = problem
            self._stop()

    async def _retry_until_started(self) -> bool:
        """Begin although the database is busy or restarting just now, but not if it stays away.

        Returns whether it has begun: one that is told to stop before that owes nothing to anybody.
        """
        until = self._host.monotonic() + STARTING
        while True:
            try:
                await self._rescuer.rescue_now()
            except (InProgress, StoreUnavailable) as problem:
                if self._fetcher.stopping.is_set():
                    return False
                if self._host.monotonic() > until:
                    raise
                logger.warning("the relay cannot begin yet, trying again: %s", problem)
                await self._fetcher.sleep_until_woken(self._pauses.latest)
            else:
                return True

    async def _drain(self) -> None:
        """Release what was not begun, let the rest arrive, and give that back when time is up."""
        until = self._host.monotonic() + self._grace
        dispatcher = self._dispatcher
        dispatcher.release_unstarted()
        while (
            dispatcher.destinations.list_running()
            and not self._stopping_now
            and self._host.monotonic() < until
        ):
            self._fetcher.wake_event.clear()
            await self._fetcher.sleep_until_woken(WATCH)
        left = 0.0 if self._stopping_now else max(until - self._host.monotonic(), 0.0)
        await dispatcher.abandon(left)

    async def _end(self, helpers: Sequence[asyncio.Task[None]]) -> None:
        self._wakeup.remove_listener(self.wake)
        await cancel_until_done(helpers)
        await self._sender.close()
        try:
            await self.relayed.flush(self._runner)
            await self._heartbeat.end()
        except DulyError as problem:
            logger.warning("the last counters could not be written: %s", problem)
