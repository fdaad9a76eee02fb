"""Sending what is held: each message from its first byte to its end, which is written with others.

How a message ended is decided once: by its receiver, by a timeout, or by the end of the relay.
Whoever comes later is not heard.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import TYPE_CHECKING

from duly.core.defaults import WAIT
from duly.core.failures import plain
from duly.core.session import host_time
from duly.outbox.lease import Settled, settle
from duly.outbox.outcome import RELEASED, SENT, Circumstances, Ended, Stuck, interrupted, judged
from duly.relay.destinations import Depot
from duly.relay.lease_clock import term_of
from duly.relay.stats import Relayed
from duly.service.completer import Settler

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.core.errors import StoreRefused
    from duly.relay.dependencies import RelayParts
    from duly.relay.destination import Lane
    from duly.relay.in_flight import Parcel
    from duly.relay.sender import Sender
    from duly.relay.settings import RelaySettings

logger = logging.getLogger("duly")
# Seconds that a transport has to obey a cancellation.
OBEYING = 2.0
# Ends that are not written yet, for each message on its way: then nothing more is taken.
UNSETTLED = 4


class Dispatcher:
    """Sends what is in the depot.

    Args:
        parts: what the relay works with.
        settings: what it was told.
        sender: makes one attempt.
        stirred: called whenever there is room again, or one end more is written.
        stop: called where this process must start anew.
    """

    def __init__(
        self,
        parts: RelayParts,
        settings: RelaySettings,
        sender: Sender,
        *,
        stirred: Callable[[], None],
        stop: Callable[[], None],
    ) -> None:
        self._parts = parts
        self._sender = sender
        self._stirred = stirred
        self._stop = stop
        self._most_unsettled = UNSETTLED * settings.concurrency
        self.depot = Depot(parts.outgoing.transports, settings)
        self.term = term_of(settings, parts.outgoing)
        self.relayed = Relayed()
        self._settler: Settler[Parcel, Settled] = Settler(
            parts.store.awaited, settle, buried, self._settled, stirred
        )

    @property
    def busy(self) -> bool:
        """Whether it has any message, or an end that is not written yet."""
        return self.depot.held > 0 or self._settler.left > 0

    @property
    def full(self) -> bool:
        """Whether nothing more should be taken before something has ended."""
        return self.depot.room <= 0 or self._settler.left > self._most_unsettled

    # Beginning

    def start(self) -> int:
        """Begin to send what may be sent, to each destination in turn; how many."""
        begun, room = 0, self.depot.free
        for lane in self.depot.laden():
            if lane.closed:
                self._release(lane)
        lanes = self.depot.laden()
        # Whoever has the fewest on their way comes first, or a few slow ones would keep all slots.
        lanes.sort(key=lambda lane: len(lane.running))
        while lanes and begun < room:
            going: list[Lane] = []
            asked = lanes[: room - begun]
            for lane in asked:
                lane.hung = self._sender.hung(lane.destination)
                parcel = self.depot.next(lane)
                if parcel is None:
                    continue
                going.append(lane)
                if self.term.lasts(parcel, self._sender.timeout(lane.destination)):
                    self._begin(lane, parcel)
                    begun += 1
                else:
                    self._give_back(parcel)
            lanes = [*lanes[len(asked) :], *going]
        return begun

    def _begin(self, lane: Lane, parcel: Parcel) -> None:
        self.depot.went(lane, parcel)
        parcel.begun = time.monotonic()
        self.relayed.begin(parcel)
        parcel.task = asyncio.get_running_loop().create_task(self._send(lane, parcel))

    async def _send(self, lane: Lane, parcel: Parcel) -> None:
        """One attempt, from its first byte to what is to be written about its end."""
        try:
            await self._sender.send(parcel.leased, self.term.left_for_call(parcel))
            ended = SENT
        except asyncio.CancelledError:
            # By the relay, which said how it ends; or by something inside of the transport.
            ended = parcel.ended or self._judged(parcel, RuntimeError("it was cancelled inside"))
        except KeyboardInterrupt:
            self.depot.left(lane, parcel)
            raise
        except Stuck as problem:
            ended = self._judged(parcel, problem)
            self._hear_stuck(problem)
        except BaseException as problem:  # whatever it is: a task that dies would keep its slot
            ended = self._judged(parcel, problem)
        self._finish(lane, parcel, ended)

    # Ending

    def _hear_stuck(self, problem: Stuck) -> None:
        """Threads cannot be ended: a process that has no room for more must start anew."""
        if not self.relayed.stuck:
            logger.critical("%s: this process must start anew", problem)
            self.relayed.stuck = True
            self._stop()

    def _judged(self, parcel: Parcel, problem: BaseException) -> Ended:
        leased = parcel.leased
        passed = int((time.monotonic() - parcel.asked) * 1_000_000)
        clock = self._parts.store.clock
        now = leased.taken_at + passed if clock is None else host_time(clock)
        at = Circumstances(now, random.random(), self._parts.secrets)  # noqa: S311
        return judged(leased, self._parts.outgoing.backoff(leased.destination), problem, at)

    def _finish(self, lane: Lane, parcel: Parcel, ended: Ended) -> None:
        """The slot is free; the end is written with others."""
        if parcel not in lane.running:  # it was given back before, and does not count any more
            return
        parcel.ended = ended
        self.depot.left(lane, parcel)
        if lane.hear(ended):
            logger.warning(
                "%s %s: nothing is sent there for %.1f s",
                lane.destination,
                lane.complaint,
                lane.reopens_in,
            )
            self._release(lane)
        self._settler.add(parcel, Settled(parcel.leased, ended, parcel.ran))
        self.start()
        self._stirred()

    def _release(self, lane: Lane) -> None:
        """Give back what is held and was not begun."""
        for parcel in self.depot.emptied(lane):
            self._give_back(parcel)

    def _give_back(self, parcel: Parcel) -> None:
        parcel.ended = RELEASED
        self._settler.add(parcel, Settled(parcel.leased, RELEASED, 0))

    def _settled(self, run: Parcel, ended: Ended, *, held: bool) -> None:
        if run.begun is not None or not held:
            self.relayed.count(run, ended, held=held)

    # The end of all

    def release_unstarted(self) -> None:
        """Give back what was not begun: it costs the message nothing."""
        for lane in self.depot.lanes.values():
            self._release(lane)

    async def abandon(self, patience: float = 0.0) -> None:
        """Give everything back, at once; the database has a while to take it."""
        self.release_unstarted()
        await self._stopped_sending()
        try:
            async with asyncio.timeout(patience + WAIT.total_seconds() + 1.0):
                await self._settler.flushed()
        except TimeoutError:
            logger.warning(
                "%d messages could not be given back, their leases will run out",
                self._settler.left,
            )

    async def _stopped_sending(self) -> None:
        """Stop what is on its way; what does not obey is left behind."""
        running = self.depot.running()
        if running:
            logger.warning(
                "%d messages on their way are given back, and may have arrived", len(running)
            )
        tasks = [parcel.task for parcel in running if parcel.task is not None]
        for parcel in running:
            # It may have arrived: whoever sends it again knows that from the count.
            parcel.ended = interrupted(parcel.leased)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=OBEYING)
        for lane in self.depot.lanes.values():
            for parcel in list(lane.running):
                if parcel.task is not None and not parcel.task.done():
                    logger.warning("message %s does not let itself be stopped", parcel.leased.id)
                    self._finish(lane, parcel, interrupted(parcel.leased))
                else:  # it was cancelled before its first step
                    self._finish(lane, parcel, RELEASED)


def buried(one: Settled, problem: StoreRefused) -> Settled:
    """What to write where the database never takes the end of a message: it is dead."""
    attempt = one.leased.attempts + 1
    error = plain(f"its end was refused: {problem}", attempt, "duly.StoreRefused")
    return one._replace(ended=Ended("dead", burnt=1, error=error))
