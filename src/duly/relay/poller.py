"""Looking: which destinations have something to send, and how soon to look again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from duly.core.defaults import WAIT
from duly.outbox.lease import next_destinations, peek_outbox, stage_due
from duly.outbox.registry import is_web

if TYPE_CHECKING:
    from duly.core.session import Session
    from duly.relay.dependencies import RelayDependencies
    from duly.relay.destinations import Destinations
    from duly.relay.rescue import Rescuer
    from duly.relay.settings import RelaySettings

logger = logging.getLogger("duly")
# Seconds between two looks for further destinations, and for what has come due, while it is busy.
POLL_INTERVAL = 0.25
# A look is worth so many times what it takes of waiting, but not so many seconds.
POLL_COST_FACTOR, LONGEST_POLL_PAUSE = 10.0, 5.0
NEVER = float("-inf")


class Poller:
    """Looks at the outbox without taking anything, and opens lanes in the depot."""

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
        # What is staged for transports that this process does not have, and was told of.
        self._unknown_transports: set[str] = set()
        # Seconds that the last look took.
        self._poll_seconds = 0.0
        self._after = ""
        self._polled_at = NEVER
        # Whether somebody said that there is something new.
        self.notified = False
        # Whether this round's look found nothing that can be sent now, and when there may be.
        self.found_nothing = False
        self.next_in: int | None = None

    def notify(self) -> None:
        """Something was staged: the next round looks, however busy it is."""
        self.notified = True

    def poll_next_round(self) -> None:
        """The next round looks."""
        self._polled_at = NEVER

    def pause_between_polls(self, seconds: float) -> float:
        """How long to wait for the next look: longer where a look is dear.

        What was sent stays in the indexes for as long as any transaction elsewhere could see it,
        and every look walks through it.
        """
        return max(seconds, min(POLL_COST_FACTOR * self._poll_seconds, LONGEST_POLL_PAUSE))

    async def poll_if_due(self) -> bool:
        """Find the next destinations, if it is time to; False where a look found none."""
        self.found_nothing = False
        due = self.notified or self._monotonic() - self._polled_at > self.pause_between_polls(
            POLL_INTERVAL
        )
        return not due or await self._poll()

    async def _poll(self) -> bool:
        """Find the next destinations that have something to send; whether there are any."""
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
        if not seen.due and not soon:  # a look costs no lock, which matters to SQLite
            self.found_nothing = True
            return False
        found = await self._find_destinations()
        for destination in found:
            self._destinations.get_or_create(destination).restart_scan()
        self._destinations.forget_idle()
        self.found_nothing = not found and not self._after
        return bool(found)

    async def _find_destinations(self) -> list[str]:
        """The next destinations by name, after those that the last look found."""
        skipped = [lane.name for lane in self._destinations.by_name.values() if lane.room == 0]
        skipped += self._unknown_transports
        after, most = self._after, self._at_once

        async def look(session: Session) -> list[str]:
            await stage_due(session)
            return await next_destinations(session, after, skipped, most)

        named = await self._runner.run_autocommit(look, wait=WAIT)
        found = [one for one in named if self._can_send_to(one)]
        self._after = named[-1] if len(named) >= most else ""
        # Those before the first of these may have something, too: then the next round looks.
        self._polled_at = NEVER if after and not self._after else self._monotonic()
        if not found and after:
            return await self._find_destinations()
        return found

    def _can_send_to(self, destination: str) -> bool:
        """Whether this process can send there; another may, or the next deploy."""
        if is_web(destination) or destination in self._transports:
            return True
        self._unknown_transports.add(destination)
        logger.warning(
            "there are messages to %s:…, and no such transport here: they wait for a relay that "
            "has it",
            destination,
        )
        return False
