"""Sending what is held: each message from its first byte to its end, which is written with others.

How a message ended is decided once: by its receiver, by a timeout, or by the end of the relay.
Whoever comes later is not heard.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from duly.core.defaults import WAIT
from duly.core.failures import reason_record
from duly.core.session import host_time
from duly.outbox.lease import MessageSettlement, settle
from duly.outbox.outcome import (
    RELEASED,
    SENT,
    AttemptContext,
    MessageOutcome,
    Stuck,
    outcome_of_attempt,
    outcome_of_interruption,
)
from duly.relay.destinations import Destinations
from duly.relay.lease_clock import lease_clock_of
from duly.relay.stats import Relayed
from duly.service.completer import Completer

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.core.errors import StoreRefused
    from duly.relay.dependencies import RelayDependencies
    from duly.relay.destination import Destination
    from duly.relay.in_flight import InFlight
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
        dependencies: what the relay works with.
        settings: what it was told.
        sender: makes one attempt.
        on_progress: called whenever there is room again, or one end more is written.
        stop: called where this process must start anew.
    """

    def __init__(
        self,
        dependencies: RelayDependencies,
        settings: RelaySettings,
        sender: Sender,
        *,
        on_progress: Callable[[], None],
        stop: Callable[[], None],
    ) -> None:
        self._dependencies = dependencies
        self._host = host = dependencies.host
        self._sender = sender
        self._on_progress = on_progress
        self._stop = stop
        self._most_unsettled = UNSETTLED * settings.concurrency
        self.destinations = Destinations(dependencies.outgoing.transports, settings, host)
        self.lease_clock = lease_clock_of(settings, dependencies.outgoing, host)
        self.relayed = Relayed()
        self._completer: Completer[InFlight, MessageSettlement] = Completer(
            dependencies.store.async_runner,
            settle,
            dead_settlement,
            self._on_settled,
            on_progress,
            host.random,
        )

    @property
    def busy(self) -> bool:
        """Whether it has any message, or an end that is not written yet."""
        return self.destinations.leased_count > 0 or self._completer.pending > 0

    @property
    def full(self) -> bool:
        """Whether nothing more should be taken before something has ended."""
        return self.destinations.room <= 0 or self._completer.pending > self._most_unsettled

    # Beginning

    def start(self) -> int:
        """Begin to send what may be sent, to each destination in turn; how many."""
        begun, room = 0, self.destinations.free
        for lane in self.destinations.with_waiting():
            if lane.closed:
                self._release_waiting(lane)
        lanes = self.destinations.with_waiting()
        # Whoever has the fewest on their way comes first, or a few slow ones would keep all slots.
        lanes.sort(key=lambda lane: len(lane.running))
        while lanes and begun < room:
            going: list[Destination] = []
            asked = lanes[: room - begun]
            for lane in asked:
                lane.hung = self._sender.count_hung(lane.name)
                parcel = self.destinations.pop_next(lane)
                if parcel is None:
                    continue
                going.append(lane)
                if self.lease_clock.is_long_enough(parcel, self._sender.timeout(lane.name)):
                    self._start_sending(lane, parcel)
                    begun += 1
                else:
                    self._give_back(parcel)
            lanes = [*lanes[len(asked) :], *going]
        return begun

    def _start_sending(self, destination: Destination, in_flight: InFlight) -> None:
        self.destinations.mark_sending(destination, in_flight)
        in_flight.started_at = self._host.monotonic()
        self.relayed.begin(in_flight)
        in_flight.task = asyncio.get_running_loop().create_task(self._send(destination, in_flight))

    async def _send(self, destination: Destination, in_flight: InFlight) -> None:
        """One attempt, from its first byte to what is to be written about its end."""
        try:
            await self._sender.send(in_flight.leased, self.lease_clock.seconds_for_call(in_flight))
            ended = SENT
        except asyncio.CancelledError:
            # By the relay, which said how it ends; or by something inside of the transport.
            ended = in_flight.ended or self._outcome_of_error(
                in_flight, RuntimeError("it was cancelled inside")
            )
        except KeyboardInterrupt:
            self.destinations.mark_ended(destination, in_flight)
            raise
        except Stuck as problem:
            ended = self._outcome_of_error(in_flight, problem)
            self._report_stuck(problem)
        except BaseException as problem:  # whatever it is: a task that dies would keep its slot
            ended = self._outcome_of_error(in_flight, problem)
        self._finish(destination, in_flight, ended)

    # Ending

    def _report_stuck(self, problem: Stuck) -> None:
        """Threads cannot be ended: a process that has no room for more must start anew."""
        if not self.relayed.stuck:
            logger.critical("%s: this process must start anew", problem)
            self.relayed.stuck = True
            self._stop()

    def _outcome_of_error(self, in_flight: InFlight, problem: BaseException) -> MessageOutcome:
        leased = in_flight.leased
        passed = int((self._host.monotonic() - in_flight.lease_asked_at) * 1_000_000)
        clock = self._dependencies.store.clock
        now = leased.taken_at + passed if clock is None else host_time(clock)
        at = AttemptContext(now, self._host.random.random(), self._dependencies.secrets)
        return outcome_of_attempt(
            leased, self._dependencies.outgoing.backoff(leased.destination), problem, at
        )

    def _finish(self, destination: Destination, in_flight: InFlight, ended: MessageOutcome) -> None:
        """The slot is free; the end is written with others."""
        if (
            in_flight not in destination.running
        ):  # it was given back before, and does not count any more
            return
        in_flight.ended = ended
        self.destinations.mark_ended(destination, in_flight)
        if destination.record_result(ended):
            logger.warning(
                "%s %s: nothing is sent there for %.1f s",
                destination.name,
                destination.reason,
                destination.reopens_in,
            )
            self._release_waiting(destination)
        self._completer.add(in_flight, in_flight.settlement(ended))
        self.start()
        self._on_progress()

    def _release_waiting(self, destination: Destination) -> None:
        """Give back what is held and was not begun."""
        for parcel in self.destinations.pop_all(destination):
            self._give_back(parcel)

    def _give_back(self, in_flight: InFlight) -> None:
        in_flight.ended = RELEASED
        self._completer.add(in_flight, in_flight.settlement(RELEASED))

    def _on_settled(self, run: InFlight, ended: MessageOutcome, *, held: bool) -> None:
        if run.started_at is not None or not held:
            self.relayed.count(run, ended, held=held)

    # The end of all

    def release_unstarted(self) -> None:
        """Give back what was not begun: it costs the message nothing."""
        for lane in self.destinations.by_name.values():
            self._release_waiting(lane)

    async def abandon(self, patience: float = 0.0) -> None:
        """Give everything back, at once; the database has a while to take it."""
        self.release_unstarted()
        await self._stop_sending()
        try:
            async with asyncio.timeout(patience + WAIT.total_seconds() + 1.0):
                await self._completer.flush()
        except TimeoutError:
            logger.warning(
                "%d messages could not be given back, their leases will run out",
                self._completer.pending,
            )

    async def _stop_sending(self) -> None:
        """Stop what is on its way; what does not obey is left behind."""
        running = self.destinations.list_running()
        if running:
            logger.warning(
                "%d messages on their way are given back, and may have arrived", len(running)
            )
        tasks = [parcel.task for parcel in running if parcel.task is not None]
        for parcel in running:
            # It may have arrived: whoever sends it again knows that from the count.
            parcel.ended = outcome_of_interruption(parcel.leased)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=OBEYING)
        for lane in self.destinations.by_name.values():
            for parcel in list(lane.running):
                if parcel.task is not None and not parcel.task.done():
                    logger.warning("message %s does not let itself be stopped", parcel.leased.id)
                    self._finish(lane, parcel, outcome_of_interruption(parcel.leased))
                else:  # it was cancelled before its first step
                    self._finish(lane, parcel, RELEASED)


def dead_settlement(one: MessageSettlement, problem: StoreRefused) -> MessageSettlement:
    """What to write where the database never takes the end of a message: it is dead."""
    error = reason_record(
        f"its end was refused: {problem}", one.attempt, "duly.errors.StoreRefused"
    )
    return one._replace(ended=MessageOutcome("dead", attempts_used=1, error=error))
