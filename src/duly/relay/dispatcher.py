"""Sending leased messages: each from its first byte to its outcome, which is written in batches.

The outcome of an attempt is decided once: by the receiver, by a timeout, or by the end of the
relay. A later decision is ignored.
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
from duly.relay.destination import Destinations
from duly.relay.in_flight import lease_clock_of
from duly.relay.stats import Relayed
from duly.service.completer import Completer

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.core.errors import StoreRefused
    from duly.relay.destination import Destination
    from duly.relay.in_flight import InFlight
    from duly.relay.sender import Sender
    from duly.relay.settings import RelayDependencies, RelaySettings

logger = logging.getLogger("duly")
# Seconds that a transport has to end after it is cancelled.
OBEYING = 2.0
# Outcomes not yet written for each message in flight, above which no more are leased.
UNSETTLED = 4


class Dispatcher:
    """Sends leased messages, to each destination in turn.

    Args:
        dependencies: what the relay works with.
        settings: how the relay works.
        sender: makes one attempt.
        on_progress: called when there is room again, or outcomes were written.
        stop: called if the process must be restarted.
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
        """True if it has a message, or an outcome to write."""
        return self.destinations.leased_count > 0 or self._completer.pending > 0

    @property
    def full(self) -> bool:
        """True if nothing more should be leased for now."""
        return self.destinations.room <= 0 or self._completer.pending > self._most_unsettled

    # Start

    def start(self) -> int:
        """Start to send what may be sent, to each destination in turn; return how many."""
        begun, room = 0, self.destinations.free
        for destination in self.destinations.with_waiting():
            if destination.closed:
                self._release_waiting(destination)
        ready = self.destinations.with_waiting()
        # The destination with the fewest in flight comes first, or slow ones would keep all slots.
        ready.sort(key=lambda destination: len(destination.running))
        while ready and begun < room:
            going: list[Destination] = []
            asked = ready[: room - begun]
            for destination in asked:
                destination.hung = self._sender.count_hung(destination.name)
                in_flight = self.destinations.pop_next(destination)
                if in_flight is None:
                    continue
                going.append(destination)
                if self.lease_clock.is_long_enough(
                    in_flight, self._sender.timeout(destination.name)
                ):
                    self._start_sending(destination, in_flight)
                    begun += 1
                else:
                    self._release(in_flight)
            ready = [*ready[len(asked) :], *going]
        return begun

    def _start_sending(self, destination: Destination, in_flight: InFlight) -> None:
        self.destinations.mark_sending(destination, in_flight)
        in_flight.started_at = self._host.monotonic()
        self.relayed.begin(in_flight)
        in_flight.task = asyncio.get_running_loop().create_task(self._send(destination, in_flight))

    async def _send(self, destination: Destination, in_flight: InFlight) -> None:
        """Make one attempt, and record its outcome."""
        try:
            await self._sender.send(in_flight.leased, self.lease_clock.seconds_for_call(in_flight))
            ended = SENT
        except asyncio.CancelledError:
            # By the relay, which has set the outcome; or inside the transport.
            ended = in_flight.ended or self._outcome_of_error(
                in_flight, RuntimeError("it was cancelled inside")
            )
        except KeyboardInterrupt:
            self.destinations.mark_ended(destination, in_flight)
            raise
        except Stuck as problem:
            ended = self._outcome_of_error(in_flight, problem)
            self._report_stuck(problem)
        except BaseException as problem:  # any error: a task that dies would keep its slot
            ended = self._outcome_of_error(in_flight, problem)
        self._finish(destination, in_flight, ended)

    # Outcome

    def _report_stuck(self, problem: Stuck) -> None:
        """Stop the relay: hung threads cannot be ended, and there is no room for more."""
        if not self.relayed.stuck:
            logger.critical("relay stuck: restart required: %s", problem)
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
        """Free the slot, and have the outcome written."""
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
        """Release the messages that wait for this destination."""
        for in_flight in self.destinations.pop_all(destination):
            self._release(in_flight)

    def _release(self, in_flight: InFlight) -> None:
        in_flight.ended = RELEASED
        self._completer.add(in_flight, in_flight.settlement(RELEASED))

    def _on_settled(self, run: InFlight, ended: MessageOutcome, *, held: bool) -> None:
        if run.started_at is not None or not held:
            self.relayed.count(run, ended, held=held)

    # Drain

    def release_unstarted(self) -> None:
        """Release every waiting message: it costs the message nothing."""
        for destination in self.destinations.by_name.values():
            self._release_waiting(destination)

    async def abandon(self, patience: float = 0.0) -> None:
        """Release everything now; wait up to ``patience`` seconds and more for the database."""
        self.release_unstarted()
        await self._stop_sending()
        try:
            async with asyncio.timeout(patience + WAIT.total_seconds() + 1.0):
                await self._completer.flush()
        except TimeoutError:
            logger.warning(
                "%d messages could not be released, their leases will run out",
                self._completer.pending,
            )

    async def _stop_sending(self) -> None:
        """Cancel messages in flight; leave behind those that do not end."""
        running = self.destinations.list_running()
        if running:
            logger.warning("%d messages in flight are released, and may have arrived", len(running))
        tasks = [in_flight.task for in_flight in running if in_flight.task is not None]
        for in_flight in running:
            # It may have arrived: the next attempt knows that from the count.
            in_flight.ended = outcome_of_interruption(in_flight.leased)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=OBEYING)
        for destination in self.destinations.by_name.values():
            for in_flight in list(destination.running):
                if in_flight.task is not None and not in_flight.task.done():
                    logger.warning("message %s cannot be cancelled", in_flight.leased.id)
                    self._finish(destination, in_flight, outcome_of_interruption(in_flight.leased))
                else:  # cancelled before its first step
                    self._finish(destination, in_flight, RELEASED)


def dead_settlement(one: MessageSettlement, problem: StoreRefused) -> MessageSettlement:
    """Return what to write if the database refuses the outcome: the message is dead."""
    error = reason_record(
        f"its end was refused: {problem}", one.attempt, "duly.errors.StoreRefused"
    )
    return one._replace(ended=MessageOutcome("dead", attempts_used=1, error=error))
