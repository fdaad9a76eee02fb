"""``run_relay``: messages are recorded instead of sent, and answered as the test says."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from duly.app.sync import loop_is_running
from duly.core.defaults import WAIT
from duly.core.errors import SyncAsyncMismatch, UsageError
from duly.core.validation import kind
from duly.outbox.lease import peek_outbox
from duly.outbox.message import Message, message_of
from duly.outbox.outcome import Answered
from duly.outbox.registry import is_web
from duly.relay.sender import Sender
from duly.relay.settings import GRACE, relay_settings
from duly.testing.clocks import ClockMover
from duly.testing.guard import refuse_foreign
from duly.testing.run_jobs import Until, checked_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.app.duly import Duly
    from duly.outbox.lease import LeasedMessage
    from duly.outbox.registry import OutboxRegistry
    from duly.testing.clocks import HandClock

Said: TypeAlias = "int | Exception"
Reply: TypeAlias = "Said | Callable[[Message], Said]"
Send = Literal["recorded", "really"]


class RecordingSender(Sender):
    """A sender that remembers every message, and sends none unless ``send`` is ``really``."""

    def __init__(
        self, outgoing: OutboxRegistry, answer: Reply, send: Send, recorded: list[Message]
    ) -> None:
        super().__init__(outgoing)
        self._answer = answer
        self._send = send
        self._recorded = recorded
        # The first answer that is none. The relay takes what send() raises for a failed attempt.
        self.mistake: UsageError | None = None

    def prepare(self) -> None:
        """Load what sending needs, if anything will be sent."""
        if self._send == "really":
            super().prepare()

    async def send(self, leased: LeasedMessage, most: float) -> None:
        """Record it; what becomes of it is what the test, or the other side, says."""
        message = message_of(leased)
        if is_web(leased.destination):
            signature = await self._signature(leased, message)
            headers = {**message.headers, "Idempotency-Key": message.key, **signature}
            message = replace(message, headers=headers)
        self._recorded.append(message)
        if self._send == "really":
            await super().send(leased, most)
            return
        said = self._answer(message) if callable(self._answer) else self._answer
        if isinstance(said, Exception):
            raise said
        try:
            delivered = 200 <= checked_status(said) < 300
        except UsageError as mistake:
            self.mistake = self.mistake or mistake
            raise
        if not delivered:
            raise Answered(said, None, None)


class RunRelay:
    """Runs the relay of one application: ``run_relay()``, or ``await run_relay.aio()``.

    ``sent`` has every message that was recorded, of all calls.

    Args:
        app: the application, on a database for tests.
        clock: the one that the app goes by, for ``until="settled"``.
    """

    def __init__(self, app: Duly, clock: HandClock | None = None) -> None:
        self._app = app
        self._clock = clock
        self.sent: list[Message] = []

    def __call__(
        self, *, answer: Reply = 200, until: Until = "idle", send: Send = "recorded"
    ) -> list[Message]:
        """Take what is due in the outbox, record it, and return that.

        Each is a ``duly.types.Message`` with all the headers that would have been sent.

        Args:
            answer: what the other side says: a status, an exception, or a function of the message
                that returns one of these.
            until: ``idle`` ends when no message is due now; ``settled`` moves the clock to what
                is due next, until every message is sent or dead.
            send: ``really`` to send them: by HTTP, and through the app's own transports.
        """
        if loop_is_running():
            raise SyncAsyncMismatch("an event loop is running here: await run_relay.aio(…)")
        return asyncio.run(self._run_in_own_loop(answer, until, send))

    async def aio(
        self, *, answer: Reply = 200, until: Until = "idle", send: Send = "recorded"
    ) -> list[Message]:
        """`run_relay()`, awaited."""
        refuse_foreign(self._app)
        wanted, way, before = checked_until(until), checked_send(send), len(self.sent)
        if not callable(answer) and not isinstance(answer, Exception):
            checked_status(answer)  # also where no message is due
        mover = ClockMover(self._clock) if wanted == "settled" else None
        while True:
            await self._relay_once(answer, way)
            wait = None if mover is None else await self._next_due()
            if mover is None or wait is None:
                return self.sent[before:]
            mover.move(wait, len(self.sent))

    async def _run_in_own_loop(self, answer: Reply, until: Until, send: Send) -> list[Message]:
        """Run in an event loop of its own, and close what that leaves open."""
        try:
            return await self.aio(answer=answer, until=until, send=send)
        finally:
            await self._app.process.release_loop()

    async def _relay_once(self, answer: Reply, send: Send) -> None:
        """One pass; its messages are recorded in the order in which they were staged."""
        now: list[Message] = []
        recorder = RecordingSender(self._app.registries.outbox, answer, send, now)
        relay = self._app.process.relay(relay_settings(1, 1, None, GRACE), recorder)
        try:
            await relay.run("idle")
        finally:
            self.sent += sorted(now, key=lambda message: (message.created_at, message.id))
        if recorder.mistake is not None:
            raise recorder.mistake

    async def _next_due(self) -> timedelta | None:
        """How long until something is due."""
        seen = await self._app.store.async_runner.run_autocommit(peek_outbox, wait=WAIT)
        if seen.next_in is None:
            return None
        return timedelta(microseconds=max(seen.next_in, 0))


def checked_send(send: object) -> Send:
    """Whether anything is sent."""
    if send not in get_args(Send):
        raise UsageError('send must be "recorded" or "really"')
    return send  # type: ignore[return-value]  # that was looked at just now


def checked_status(said: object) -> int:
    """A status of HTTP."""
    if not isinstance(said, int) or not 100 <= said <= 599:
        given = str(said) if isinstance(said, int) else kind(said)
        raise UsageError(f"answer must be a status such as 200, or an exception, not {given}")
    return said
