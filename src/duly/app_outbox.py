"""The verbs of `Duly` that tell the world, for code that blocks and awaited."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

from duly._kernel.errors import Misuse, WrongColour
from duly._kernel.inputs import checked_count
from duly._kernel.onestep import finish
from duly._kernel.options import WAIT
from duly._ledger.letters import MOST_SHOWN, SHOWN, checked_id
from duly._ledger.replaying import replay
from duly.app_checks import checked_until, loop_is_running
from duly.app_enqueue import AwaitedEnqueueVerbs, EnqueueVerbs
from duly.jobs.inside import refuse_inside
from duly.outbox.letters import chosen, discarded, found, listed, plan_of
from duly.outbox.messages import ATTEMPTS, BACKOFF
from duly.outbox.outgoing import TIMEOUT, WINDOW, checked_name, transport_of
from duly.outbox.stage import stage
from duly.outbox.stats import counted
from duly.runtime.hosting import event_loop
from duly.runtime.relaying.parts import RelayParts
from duly.runtime.relaying.relay import Relay
from duly.runtime.relaying.settings import (
    CONCURRENCY,
    GRACE,
    PER_DESTINATION,
    relay_settings,
)
from duly.runtime.relaying.signers import OwnSigner, StandardSigner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime, timedelta

    from duly._kernel.results import Json
    from duly._kernel.retry import Backoff
    from duly._kernel.session import Runner, Session
    from duly._ledger.replaying import Replayed
    from duly.edge.site import Site
    from duly.outbox.letters import DeadMessage, OutboxMessage
    from duly.outbox.messages import NewMessage, Staged
    from duly.outbox.stats import OutboxStats
    from duly.runtime.relaying.sending import Sender
    from duly.runtime.relaying.settings import RelaySettings
    from duly.runtime.relaying.tally import Relayed
    from duly.runtime.taking import Until

Sending = TypeVar("Sending", bound="Callable[..., Any]")
# Stands for a signer that is a function.
OWN: object = object()
INSTEAD = "use tx.send(…), or pass tx=tx"
OUTSIDE = "call it outside of the handler, or in a job without tx"


class OutboxVerbs(EnqueueVerbs):
    """What `Duly` does to tell the world."""

    site: Site

    def send(
        self,
        url: str,
        *,
        json: Json = None,
        data: bytes | str | Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        sign: str | None = None,
        key: str | bytes | None = None,
        window: timedelta = WINDOW,
        method: str = "POST",
        delay: timedelta | None = None,
        at: datetime | None = None,
        attempts: int | None = None,
        tx: object = None,
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
                ``tx`` of a handler. Without one it is committed at once.
        """
        new = self.jobs.outgoing.new(
            url, json=json, data=data, headers=headers, sign=sign, key=key, window=window,
            method=method, delay=delay, at=at, attempts=attempts,
        )  # fmt: skip
        session = self._joined(tx, "sync", "app.send", INSTEAD)
        if session is not None:
            return finish(joined(session, new))
        done = finish(committed(self.store.blocking, new))
        self.bell.ring()
        return done

    def transport(
        self,
        name: str,
        *,
        attempts: int = ATTEMPTS,
        timeout: timedelta = TIMEOUT,
        concurrency: int = PER_DESTINATION,
        backoff: Backoff = BACKOFF,
    ) -> Callable[[Sending], Sending]:
        """Make a function the sender of the messages to ``name:…``.

        It asks by parameter name for ``message``, and for ``key`` if it likes: the idempotency key,
        the same in every attempt. It returns when the message has arrived, and raises otherwise;
        ``Retry`` and ``Dead`` decide for themselves.

        Args:
            name: what stands before the colon, as in ``mail:ann@example.com``.
            attempts: how often a message may fail before it is dead.
            timeout: how long one attempt may take.
            concurrency: how many are sent at the same time.
            backoff: how long a message waits after an error.
        """
        checked_name("the name of a transport", name, '@app.transport("mail")')

        def add(function: Sending) -> Sending:
            self.jobs.outgoing.add_transport(
                transport_of(
                    name,
                    function,
                    attempts=attempts,
                    timeout=timeout,
                    concurrency=concurrency,
                    backoff=backoff,
                )
            )
            return function

        return add

    def signer(self, name: str, *, secret: object = OWN) -> Any:
        """Register a signer by the name that ``sign=`` knows it by.

        With ``secret=`` it signs as Standard Webhooks: ``whsec_…`` makes v1 signatures, ``whsk_…``
        v1a; with several keys each message carries a signature of each. As a decorator it takes a
        function of the message that returns headers, for an API with its own way.
        """
        checked_name("the name of a signer", name, 'app.signer("ours", secret=…)')
        if secret is None:
            raise Misuse(f"the secret of signer {name} is None: check your settings")
        if secret is not OWN:
            self.jobs.outgoing.add_signer(name, StandardSigner(secret))
            return None

        def add(function: Sending) -> Sending:
            self.jobs.outgoing.add_signer(name, OwnSigner(function))
            return function

        return add

    @property
    def outbox(self) -> Outbox:
        """What was staged and not sent: dead letters, replay, counts."""
        return Outbox(self)

    def relay(
        self,
        *,
        until: Until = "idle",
        concurrency: int = CONCURRENCY,
        per_destination: int = PER_DESTINATION,
        lease: timedelta | None = None,
        grace: timedelta = GRACE,
    ) -> Relayed:
        """Send messages in this thread until there is nothing to send, or until told to stop.

        ``duly relay`` does this with signals and logs; here it serves tests and scripts.

        Args:
            until: ``idle`` ends when no message can be sent now; ``stopped`` never by itself.
            concurrency: how many messages are on their way at the same time.
            per_destination: how many of them to one destination.
            lease: how long this relay may have a message before it is given to another.
            grace: how long messages on their way may take when it is told to stop.
        """
        if loop_is_running():
            raise WrongColour("an event loop is running here: use await app.aio.relay(…)")
        settings = relay_settings(concurrency, per_destination, lease, grace)
        with asyncio.Runner(loop_factory=event_loop) as runner:
            return runner.run(self._relay_and_release(settings, checked_until(until)))

    async def _relay_and_release(self, settings: RelaySettings, until: Until) -> Relayed:
        try:
            return await self.relaying(settings).run(until)
        finally:
            await self.store.aclose_loop()

    def relaying(self, settings: RelaySettings, sender: Sender | None = None) -> Relay:
        """A relay that has not begun; for whoever runs and stops it."""
        parts = RelayParts(self.store, self.jobs.outgoing, self.bell, self._secrets())
        return Relay(parts, settings, sender)

    def _secrets(self) -> list[str]:
        """What must not be in anything that people read."""
        secrets = [
            text for route in self.site.routes.values() for text in route.source.texts_to_hide()
        ]
        for signer in self.jobs.outgoing.signers.values():
            secrets += signer.texts_to_hide()
        password = urlsplit(self.store.url).password
        return secrets if password is None else [*secrets, password, unquote(password)]


class AwaitedOutboxVerbs(AwaitedEnqueueVerbs):
    """The same verbs awaited."""

    _jobs_of: OutboxVerbs

    async def send(
        self,
        url: str,
        *,
        json: Json = None,
        data: bytes | str | Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        sign: str | None = None,
        key: str | bytes | None = None,
        window: timedelta = WINDOW,
        method: str = "POST",
        delay: timedelta | None = None,
        at: datetime | None = None,
        attempts: int | None = None,
        tx: object = None,
    ) -> Staged:
        """Stage a message; it is sent after the COMMIT of the transaction that it is staged in."""
        app = self._jobs_of
        new = app.jobs.outgoing.new(
            url, json=json, data=data, headers=headers, sign=sign, key=key, window=window,
            method=method, delay=delay, at=at, attempts=attempts,
        )  # fmt: skip
        session = app._joined(tx, "async", "app.send", INSTEAD)
        if session is not None:
            return await joined(session, new)
        done = await committed(app.store.awaited, new)
        app.bell.ring()
        return done

    @property
    def outbox(self) -> AwaitedOutbox:
        """What was staged and not sent: dead letters, replay, counts."""
        return AwaitedOutbox(self._jobs_of)

    async def relay(
        self,
        *,
        until: Until = "idle",
        concurrency: int = CONCURRENCY,
        per_destination: int = PER_DESTINATION,
        lease: timedelta | None = None,
        grace: timedelta = GRACE,
    ) -> Relayed:
        """Send messages in this event loop until there is nothing to send, or until told to."""
        settings = relay_settings(concurrency, per_destination, lease, grace)
        return await self._jobs_of.relaying(settings).run(checked_until(until))


async def joined(session: Session, message: NewMessage) -> Staged:
    """Stage in a transaction that is not ours."""
    await session.begin(None)
    return await stage(session, message)


async def committed(runner: Runner, message: NewMessage) -> Staged:
    """Stage in a transaction of duly's own.

    Without a key it is never run a second time after a lost reply: the first may have committed,
    and a relay may have sent the message and removed it.
    """
    if message.claim is not None:
        return await runner.run(lambda session: stage(session, message), wait=WAIT)
    return await runner.run_batch(lambda session: stage(session, message))


class Outbox:
    """``app.outbox``: what was staged and not sent."""

    def __init__(self, app: OutboxVerbs) -> None:
        self._app = app

    def dead(
        self,
        message_id: str | None = None,
        *,
        destination: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = SHOWN,
    ) -> list[DeadMessage]:
        """Dead messages, the latest first: given up, with their last error.

        Args:
            message_id: only this one.
            destination: only those to this origin (``https://example.com``; of a URL, its origin)
                or transport.
            since: only those that were given up then or later.
            until: only those that were given up before.
            limit: how many at most.
        """
        which = chosen(message_id, destination=destination, since=since, until=until)
        return finish(listed(self._app.store.blocking, which, checked_limit(limit)))

    def replay(
        self,
        message_id: str | None = None,
        *,
        destination: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        all: bool = False,
        dry_run: bool = False,
        rate: float | None = None,
    ) -> Replayed:
        """Make dead messages ready again, with all their attempts before them; ids and keys stay.

        Each is replayed once, however many callers ask at the same time.

        Args:
            message_id: one message; or choose by what follows.
            destination: those to this origin or transport.
            since: those that were given up then or later.
            until: those that were given up before.
            all: every dead message there is.
            dry_run: only say which.
            rate: how many may be sent in a second: the times are written with the messages.
        """
        which = chosen(message_id, destination=destination, since=since, until=until)
        plan = plan_of(which, rate, dry_run=dry_run, everything=all)
        refuse_inside("app.outbox.replay", OUTSIDE)
        done = finish(replay(self._app.store.blocking, plan))
        self._app.bell.ring()
        return done

    def find(self, message_id: str) -> OutboxMessage | None:
        """A message that is not sent yet, with its state and last error; None if it has left."""
        message = checked_id(message_id, "message")
        return finish(found(self._app.store.blocking, message))

    def discard(self, message_id: str) -> bool:
        """Delete a dead message for good; the history remembers that. False where it is not."""
        return finish(discarded(self._app.store.blocking, discarding(message_id)))

    def stats(self) -> OutboxStats:
        """How many messages are ready, waiting, leased and dead, for each destination."""
        return finish(counted(self._app.store.blocking))


class AwaitedOutbox:
    """The same awaited: ``app.aio.outbox``."""

    def __init__(self, app: OutboxVerbs) -> None:
        self._app = app

    async def dead(
        self,
        message_id: str | None = None,
        *,
        destination: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = SHOWN,
    ) -> list[DeadMessage]:
        """Dead messages, the latest first: given up, with their last error."""
        which = chosen(message_id, destination=destination, since=since, until=until)
        return await listed(self._app.store.awaited, which, checked_limit(limit))

    async def replay(
        self,
        message_id: str | None = None,
        *,
        destination: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        all: bool = False,
        dry_run: bool = False,
        rate: float | None = None,
    ) -> Replayed:
        """Make dead messages ready again, with all their attempts before them."""
        which = chosen(message_id, destination=destination, since=since, until=until)
        plan = plan_of(which, rate, dry_run=dry_run, everything=all)
        refuse_inside("app.aio.outbox.replay", OUTSIDE)
        done = await replay(self._app.store.awaited, plan)
        self._app.bell.ring()
        return done

    async def find(self, message_id: str) -> OutboxMessage | None:
        """A message that is not sent yet, with its state and last error; None if it has left."""
        return await found(self._app.store.awaited, checked_id(message_id, "message"))

    async def discard(self, message_id: str) -> bool:
        """Delete a dead message for good; the history remembers that. False where it is not."""
        return await discarded(self._app.store.awaited, discarding(message_id))

    async def stats(self) -> OutboxStats:
        """How many messages are ready, waiting, leased and dead, for each destination."""
        return await counted(self._app.store.awaited)


def checked_limit(limit: object) -> int:
    """How many letters to show."""
    return checked_count("limit", limit, most=MOST_SHOWN)


def discarding(message_id: object) -> str:
    """The message to discard, where that may be done."""
    message = checked_id(message_id, "message")
    refuse_inside("app.outbox.discard", OUTSIDE)
    return message
