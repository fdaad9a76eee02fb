"""Taking back messages from relays that were lost."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from duly.core.defaults import WAIT
from duly.core.errors import DulyError
from duly.outbox.lease import RESCUED_AT_ONCE, rescue

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from duly.core.retry import Backoff
    from duly.core.session import Runner
    from duly.relay.stats import Relayed

logger = logging.getLogger("duly")


class Rescuer:
    """Looks for leases that have run out."""

    def __init__(self, runner: Runner, relayed: Relayed, backoff: Backoff, dice: Random) -> None:
        self._runner = runner
        self._relayed = relayed
        self._backoff = backoff
        self._random = dice

    async def rescue_now(self) -> None:
        """Take back every lease that has run out."""
        while True:
            rows = await self._runner.run_autocommit(
                lambda session: rescue(session, self._backoff), wait=WAIT
            )
            for row in rows:
                self._relayed.count_rescued(row["destination"])
                told = logger.error if row["state"] == "dead" else logger.warning
                told(
                    "message %s to %s was taken back from a lost relay, rescue %s: it is %s",
                    row["id"],
                    row["destination"],
                    row["rescues"],
                    "dead" if row["state"] == "dead" else "sent again, with the same id",
                )
            if len(rows) < RESCUED_AT_ONCE:
                return

    async def run(self, pause: Callable[[], float]) -> None:
        """Look for them for as long as the relay works; ``pause`` says how many seconds apart."""
        while True:
            await asyncio.sleep(pause() * (0.75 + self._random.random() / 2))
            try:
                await self.rescue_now()
            except DulyError as problem:
                logger.warning("lost leases could not be looked for: %s", problem)
