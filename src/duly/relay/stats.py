"""What became of a relay's messages: for the caller, the log and the counters."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duly.core.exports import export_type, old_names
from duly.core.failures import failure_reason
from duly.inbox.counters import PendingCounters, flush

if TYPE_CHECKING:
    from duly.core.session import Runner
    from duly.outbox.outcome import MessageOutcome
    from duly.relay.in_flight import InFlight

logger = logging.getLogger("duly")
# A line for each message, as the access log has one for each delivery.
relay_log = logging.getLogger("duly.relay")


@export_type
@old_names("relayed", again="retried")
@dataclass(slots=True)
class Relayed:
    """What became of the messages that a relay had.

    Args:
        sent: arrived, as far as the receiver said so.
        resent: attempts at messages that may have arrived before; each carried the same id.
        retried: to be tried again later.
        dead: out of attempts, or refused by their receiver.
        lost: taken over by another relay before the end was written here.
        rescued: taken back from relays that were lost.
        stuck: whether transports that do not end make it necessary to start the process anew.
    """

    sent: int = 0
    resent: int = 0
    retried: int = 0
    dead: int = 0
    lost: int = 0
    rescued: int = 0
    stuck: bool = False
    _tally: PendingCounters = field(default_factory=PendingCounters, repr=False, compare=False)

    def begin(self, in_flight: InFlight) -> None:
        """Count an attempt that starts."""
        if in_flight.may_have_arrived:
            self.resent += 1
            self._tally.count(in_flight.leased.destination, "message_resent")

    def count(self, in_flight: InFlight, ended: MessageOutcome, *, held: bool) -> None:
        """Count an attempt that has ended, and log what an operator should know."""
        leased = in_flight.leased
        if not held:
            self.lost += 1
            logger.warning(
                "the lease on message %s (%s) was lost: another relay sends it, with the same id",
                leased.id,
                leased.destination,
            )
        elif ended.kind == "sent":
            self.sent += 1
            relay_log.info(
                "sent %s to %s in %.1f ms, attempt %d",
                leased.id,
                leased.destination,
                in_flight.elapsed / 1000,
                leased.attempts + leased.rescues + 1,
            )
        elif ended.kind == "dead":
            self.dead += 1
            logger.error(
                "message %s to %s is dead after %d of %d attempts: %s. `duly outbox show` tells "
                "more",
                leased.id,
                leased.destination,
                leased.attempts + ended.attempts_used,
                leased.max_attempts,
                failure_reason(ended.error),
            )
        else:
            self.retried += 1
            if ended.error is not None and not ended.attempts_used:
                logger.warning(
                    "message %s to %s cannot be sent from here, again in %.1f s: %s",
                    leased.id,
                    leased.destination,
                    ended.delay / 1_000_000,
                    failure_reason(ended.error),
                )
            elif ended.error is not None:
                logger.warning(
                    "message %s to %s failed in attempt %d of %d, again in %.1f s: %s",
                    leased.id,
                    leased.destination,
                    leased.attempts + 1,
                    leased.max_attempts,
                    ended.delay / 1_000_000,
                    failure_reason(ended.error),
                )
        self._tally.count(leased.destination, f"message_{ended.kind if held else 'lost'}")

    def count_rescued(self, destination: str) -> None:
        """Count a rescued message."""
        self.rescued += 1
        self._tally.count(destination, "message_rescued")

    async def flush(self, runner: Runner) -> None:
        """Write the counters; keep them if that fails."""
        tally, self._tally = self._tally, PendingCounters()
        if not tally:
            return
        try:
            await flush(runner, tally)
        except BaseException:
            self._tally.add(tally)
            raise
