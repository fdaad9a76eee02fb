"""Looking: which destinations have something to send, and how soon to look again."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from duly.core.defaults import WAIT
from duly.outbox.lease import destinations, outlook, staged
from duly.outbox.registry import is_web

if TYPE_CHECKING:
    from duly.core.session import Session
    from duly.relay.dependencies import RelayParts
    from duly.relay.destinations import Depot
    from duly.relay.rescue import Rescuer
    from duly.relay.settings import RelaySettings

logger = logging.getLogger("duly")
# Seconds between two looks for further destinations, and for what has come due, while it is busy.
LOOK = 0.25
# A look is worth so many times what it takes of waiting, but not so many seconds.
DEAR, SELDOM = 10.0, 5.0
NEVER = float("-inf")


class Lookout:
    """Looks at the outbox without taking anything, and opens lanes in the depot."""

    def __init__(
        self, parts: RelayParts, settings: RelaySettings, depot: Depot, rescuer: Rescuer
    ) -> None:
        self._runner = parts.store.awaited
        self._transports = parts.outgoing.transports
        self._at_once = 2 * settings.concurrency
        self._depot = depot
        self._rescuer = rescuer
        # What is staged for transports that this process does not have, and was told of.
        self._strange: set[str] = set()
        # Seconds that the last look took.
        self._dear = 0.0
        self._after = ""
        self._looked = NEVER
        # Whether somebody said that there is something new.
        self.rung = False
        # Whether this round's look found nothing that can be sent now, and when there may be.
        self.nothing = False
        self.next_in: int | None = None

    def ring(self) -> None:
        """Something was staged: the next round looks, however busy it is."""
        self.rung = True

    def look_next(self) -> None:
        """The next round looks."""
        self._looked = NEVER

    def patience(self, seconds: float) -> float:
        """How long to wait for the next look: longer where a look is dear.

        What was sent stays in the indexes for as long as any transaction elsewhere could see it,
        and every look walks through it.
        """
        return max(seconds, min(DEAR * self._dear, SELDOM))

    async def look_if_due(self) -> bool:
        """Find the next destinations, if it is time to; False where a look found none."""
        self.nothing = False
        due = self.rung or time.monotonic() - self._looked > self.patience(LOOK)
        return not due or await self._look()

    async def _look(self) -> bool:
        """Find the next destinations that have something to send; whether there are any."""
        begun, self.rung = time.monotonic(), False
        try:
            return await self._looked_around()
        finally:
            self._dear = time.monotonic() - begun

    async def _looked_around(self) -> bool:
        seen = await self._runner.run_single(outlook, wait=WAIT)
        self.next_in = seen.next_in
        if seen.lost:
            await self._rescuer.rescue_now()
        soon = seen.next_in is not None and seen.next_in <= 0
        if not seen.due and not soon:  # a look costs no lock, which matters to SQLite
            self.nothing = True
            return False
        found = await self._found()
        for destination in found:
            self._depot.lane(destination).begin_anew()
        self._depot.forget_idle_lanes()
        self.nothing = not found and not self._after
        return bool(found)

    async def _found(self) -> list[str]:
        """The next destinations by name, after those that the last look found."""
        skipped = [lane.destination for lane in self._depot.lanes.values() if lane.room == 0]
        skipped += self._strange
        after, most = self._after, self._at_once

        async def look(session: Session) -> list[str]:
            await staged(session)
            return await destinations(session, after, skipped, most)

        named = await self._runner.run_single(look, wait=WAIT)
        found = [one for one in named if self._known(one)]
        self._after = named[-1] if len(named) >= most else ""
        # Those before the first of these may have something, too: then the next round looks.
        self._looked = NEVER if after and not self._after else time.monotonic()
        if not found and after:
            return await self._found()
        return found

    def _known(self, destination: str) -> bool:
        """Whether this process can send there; another may, or the next deploy."""
        if is_web(destination) or destination in self._transports:
            return True
        self._strange.add(destination)
        logger.warning(
            "there are messages to %s:…, and no such transport here: they wait for a relay that "
            "has it",
            destination,
        )
        return False
