"""The verbs of `Duly` that stage messages, for code that blocks and awaited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.app.admin import AsyncJobAdmin, AsyncOutboxAdmin, JobAdmin, OutboxAdmin
from duly.app.enqueue import AsyncEnqueueVerbs, EnqueueVerbs
from duly.core.defaults import WAIT
from duly.core.onestep import finish
from duly.outbox.registry import WINDOW
from duly.outbox.stage import stage

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from duly.core.json_bytes import Storable
    from duly.core.session import Runner, Session
    from duly.outbox.message import NewMessage, Staged
    from duly.stores.join.protocols import AwaitedTx, BlockingTx

INSTEAD = "use tx.send(…), or pass tx=tx"


class SendVerbs(EnqueueVerbs):
    """What `Duly` does to tell the world."""

    def send(
        self,
        url: str,
        *,
        json: Storable = None,
        data: bytes | str | Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        sign: str | None = None,
        key: str | bytes | None = None,
        window: timedelta = WINDOW,
        method: str = "POST",
        delay: timedelta | None = None,
        at: datetime | None = None,
        attempts: int | None = None,
        tx: BlockingTx | None = None,
    ) -> Staged:
        """Stage a message; it is sent after the COMMIT of the transaction that it is staged in.

        Every attempt carries the same id, as ``Idempotency-Key`` (and as ``webhook-id`` where it is
        signed), so that the other side can take it once.

        Args:
            url: where to: ``https://…``, or ``name:…`` for a transport of your own.
            json: the body, as JSON.
            data: the body instead: bytes, text, or a mapping to send as a form.
            headers: further headers; none that holds a secret.
            sign: the name of a signer.
            key: names the message. While it is known at this address, the message that it led to
                is returned and none is added; your transaction is unharmed.
            window: how long the key is known. Then a new message may be staged, unless the old one
                still has to be sent.
            method: POST unless given.
            delay: how long to wait before it is sent.
            at: when to send it instead.
            attempts: how often it may fail before it is dead: 20 unless given, about two days.
            tx: your own open transaction: a connection or session that duly recognises, or the
                ``tx`` of a handler. Without one it is committed at once, or, with
                ``begin=duly.django(…)``, joins the ``atomic`` that is open around the call.
        """
        new = self.registry.outgoing.new(
            url, json=json, data=data, headers=headers, sign=sign, key=key, window=window,
            method=method, delay=delay, at=at, attempts=attempts,
        )  # fmt: skip
        session = self._join_caller(tx, "sync", "app.send", INSTEAD)
        if session is not None:
            return finish(stage_in_session(session, new))
        done = finish(stage_and_commit(self.store.sync_runner, new))
        self.wakeup.notify(("messages",))
        self.receiver.metrics.note_staged()
        return done

    @property
    def jobs(self) -> JobAdmin:
        """Dead jobs, replay, and counts."""
        return JobAdmin(self.store.sync_runner, self.wakeup, self._opener)

    @property
    def outbox(self) -> OutboxAdmin:
        """Messages that are not sent yet, dead messages, replay, and counts."""
        return OutboxAdmin(self.store.sync_runner, self.wakeup, self._opener)


class AsyncSendVerbs(AsyncEnqueueVerbs):
    """The same verbs awaited."""

    _jobs_of: SendVerbs

    async def send(
        self,
        url: str,
        *,
        json: Storable = None,
        data: bytes | str | Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        sign: str | None = None,
        key: str | bytes | None = None,
        window: timedelta = WINDOW,
        method: str = "POST",
        delay: timedelta | None = None,
        at: datetime | None = None,
        attempts: int | None = None,
        tx: AwaitedTx | None = None,
    ) -> Staged:
        """Stage a message; it is sent after the COMMIT of the transaction that it is staged in."""
        app = self._jobs_of
        new = app.registry.outgoing.new(
            url, json=json, data=data, headers=headers, sign=sign, key=key, window=window,
            method=method, delay=delay, at=at, attempts=attempts,
        )  # fmt: skip
        session = app._join_caller(tx, "async", "app.send", INSTEAD)
        if session is not None:
            return await stage_in_session(session, new)
        done = await stage_and_commit(app.store.async_runner, new)
        app.wakeup.notify(("messages",))
        app.receiver.metrics.note_staged()
        return done

    @property
    def jobs(self) -> AsyncJobAdmin:
        """Dead jobs, replay, and counts."""
        app = self._jobs_of
        return AsyncJobAdmin(app.store.async_runner, app.wakeup, app._opener)

    @property
    def outbox(self) -> AsyncOutboxAdmin:
        """Messages that are not sent yet, dead messages, replay, and counts."""
        app = self._jobs_of
        return AsyncOutboxAdmin(app.store.async_runner, app.wakeup, app._opener)


async def stage_in_session(session: Session, message: NewMessage) -> Staged:
    """Stage in a transaction that is not ours."""
    await session.begin(None)
    return await stage(session, message)


async def stage_and_commit(runner: Runner, message: NewMessage) -> Staged:
    """Stage in a transaction of duly's own.

    Without a key it is never run a second time after a lost reply: the first may have committed,
    and a relay may have sent the message and removed it.
    """
    if message.claim is not None:
        return await runner.run(lambda session: stage(session, message), wait=WAIT)
    return await runner.run_batch(lambda session: stage(session, message))
