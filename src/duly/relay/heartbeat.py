"""A relay's sign of life: its row among the workers, without queues.

Leases of messages end by themselves and need none. It is there for senders that would else stage
messages in silence while no relay runs, and for `duly outbox`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from typing import TYPE_CHECKING

from duly.core.defaults import WAIT
from duly.core.errors import DulyError
from duly.jobs.statements import WORKERS_BEAT, WORKERS_LEAVE

if TYPE_CHECKING:
    from duly.core.host import Host
    from duly.core.session import Runner, Session

logger = logging.getLogger("duly")
# Seconds before another try of a beat that could not be written.
AGAIN = 1.0
# Seconds for which to believe one: three may be missed.
BELIEVED = 60.0


class RelayHeartbeat:
    """Says that one relay is alive."""

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
        """Say that the relay ends; nothing where it never began."""
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
