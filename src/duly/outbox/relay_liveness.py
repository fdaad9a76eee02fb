"""Whether a relay is alive while messages wait: checked rarely, and never in a caller's call."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from duly.core.host import HOST
from duly.outbox.statements import OUTBOX_UNATTENDED

if TYPE_CHECKING:
    from duly.core.host import Host
    from duly.core.session import Session

logger = logging.getLogger("duly")
NO_RELAY = (
    "messages are staged and no relay is alive: they are safe in the database and wait for one. "
    "Run `duly relay shop:app`, or serve the app with `duly serve shop:app`, which has a relay in "
    "it (shop:app names your Duly)"
)
# Seconds between two looks of one process, and between two warnings.
LOOK, WARN = 60.0, 600.0
# Seconds between a message and the look: for its transaction to commit, and for a relay to send it.
SETTLE = 1.0


class RelayLiveness:
    """What one process knows of the relays that send its messages."""

    def __init__(self, host: Host = HOST) -> None:
        self._monotonic = host.monotonic
        # When the first message since the last look was staged.
        self._staged: float | None = None
        self._next = 0.0

    def note_staged(self) -> None:
        """Note that a message is being staged; it may yet be rolled back."""
        if self._staged is None:
            self._staged = self._monotonic()

    def wants_check(self) -> bool:
        """True if messages were staged since the last check, and that was long enough ago."""
        return self._staged is not None and self._monotonic() >= self._next

    def is_check_due(self) -> bool:
        """True if a check is wanted, and those messages had time to be committed and sent."""
        staged = self._staged
        now = self._monotonic()
        return staged is not None and now >= self._next and now >= staged + SETTLE

    async def is_unattended(self, session: Session) -> bool:
        """Ask the database whether messages wait and no relay is alive."""
        [row] = await session.rows(OUTBOX_UNATTENDED)
        return bool(row["unattended"])

    def warn_if_unattended(self, *, unattended: bool) -> None:
        """Warn if messages wait and no relay is alive."""
        self._staged = None
        self._next = self._monotonic() + (WARN if unattended else LOOK)
        if unattended:
            logger.warning(NO_RELAY)
