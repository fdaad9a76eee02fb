"""The relay: from its start to the last recorded outcome, with its heartbeat."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from typing import TYPE_CHECKING, Any

from duly.core.defaults import WAIT
from duly.core.errors import DulyError, InProgress, StoreUnavailable
from duly.jobs.statements import WORKERS_BEAT, WORKERS_LEAVE
from duly.relay.dispatcher import Dispatcher
from duly.relay.poller import MessageFetcher, Poller, Rescuer
from duly.relay.sender import Sender
from duly.service.maintenance import flush_counters_periodically, prune_periodically
from duly.stores.shielding import cancel_until_done, shield_to_end

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from duly.core.host import Host
    from duly.core.session import Runner, Session
    from duly.relay.settings import RelayDependencies, RelaySettings
    from duly.relay.stats import Relayed
    from duly.service.service_thread import Until

logger = logging.getLogger("duly")
# Seconds for a database that is busy or restarting when a relay begins.
STARTING = 20.0
# Seconds between two rescues, if the leases themselves are long.
RESCUING = 5.0
# Seconds between two checks while it drains.
WATCH = 0.1
# Seconds before another try of a beat that could not be written.
AGAIN = 1.0
# Seconds for which a heartbeat counts: three may be missed.
BELIEVED = 60.0


class Relay:
    """Sends messages in one event loop."""

    def __init__(
        self, dependencies: RelayDependencies, settings: RelaySettings, sender: Sender | None = None
    ) -> None:
        self._runner = dependencies.store.async_runner
        self._host = host = dependencies.host
        self._pauses = pauses = settings.pauses
        self._wakeup = dependencies.wakeup
        self._grace = settings.grace.total_seconds()
        # Tests pass one that only records.
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
        """Lease no more messages, and end when those in flight have ended. From any thread."""
        self._call_in_loop(self._stop)

    def stop_now(self) -> None:
        """Release messages in flight, and end. From any thread."""
        self._stopping_now = True
        self.stop()

    def wake(self) -> None:
        """Poll now: the wake-up rang. From any thread."""
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
        if self._loop is None:  # not started: no other thread uses it yet
            call()
            return
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # its event loop is closed: it has ended
            return

    async def run(self, until: Until = "stopped") -> Relayed:
        """Send until nothing is due, or until told to stop."""
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
        except BaseException:  # cancelled, or worse: release what is leased
            await shield_to_end(self._dispatcher.abandon())
            raise
        finally:
            await shield_to_end(self._end(helpers))
        if self._failure is not None:
            raise self._failure
        return self.relayed

    def _helpers(self, until: Until) -> list[Coroutine[Any, Any, None]]:
        """Return the background tasks.

        A relay that ends when idle has no heartbeat: messages staged later wait again.
        """
        pause = min(self._dispatcher.lease_clock.seconds / 4, RESCUING)
        return [
            *([self._heartbeat.run()] if until == "stopped" else []),
            self._rescuer.run(lambda: self._poller.pause_between_polls(pause)),
            flush_counters_periodically(self._runner, self.relayed, self._pauses.counters),
            prune_periodically(self._runner, self._host.random),
        ]

    def _on_helper_done(self, helper: asyncio.Task[None]) -> None:
        """Stop the relay if a background task fails."""
        problem = None if helper.cancelled() else helper.exception()
        if problem is not None:
            logger.critical("a background task of this relay failed, it stops: %r", problem)
            self._failure = problem
            self._stop()

    async def _retry_until_started(self) -> bool:
        """Wait for a busy or restarting database, up to `STARTING` seconds.

        Returns False if the relay was told to stop before that.
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
                logger.warning("the relay cannot start yet, trying again: %s", problem)
                await self._fetcher.sleep_until_woken(self._pauses.latest)
            else:
                return True

    async def _drain(self) -> None:
        """Release waiting messages, wait for those in flight, and release them after the grace."""
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


class RelayHeartbeat:
    """A relay's row among the workers, without queues.

    Leases of messages run out by themselves and need no heartbeat. It is there for the warning that
    no relay is alive, and for `duly outbox`.
    """

    def __init__(self, runner: Runner, host: Host, pause: float) -> None:
        self._runner = runner
        self._id = host.new_id()
        self._pause = pause
        self._has_beaten = False

    async def run(self) -> None:
        """Beat for as long as the relay runs."""
        while True:
            try:
                await self._runner.run_autocommit(self._beat, wait=WAIT)
            except DulyError as problem:
                logger.debug("the heartbeat of this relay was not written: %s", problem)
                await asyncio.sleep(AGAIN)
            else:
                self._has_beaten = True
                await asyncio.sleep(self._pause)

    async def end(self) -> None:
        """Remove the row, if there was a beat."""
        if self._has_beaten:
            await self._runner.run_autocommit(self._leave, wait=WAIT)

    async def _beat(self, session: Session) -> None:
        await session.rows(
            WORKERS_BEAT,
            id=self._id,
            host=socket.gethostname()[:200],
            pid=os.getpid(),
            queues="[]",
            idle=False,
            lease=int(BELIEVED * 1_000_000),
        )

    async def _leave(self, session: Session) -> None:
        await session.rows(WORKERS_LEAVE, id=self._id)
