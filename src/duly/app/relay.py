"""The verbs of `Duly` that say how messages are sent, and send them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar, overload

from duly.app.checks import checked_until, loop_is_running
from duly.app.secrets import texts_to_hide
from duly.core.errors import SyncAsyncMismatch, UsageError
from duly.outbox.message import ATTEMPTS, BACKOFF
from duly.outbox.registry import TIMEOUT, checked_name, transport_of
from duly.outbox.signing import OwnSigner, StandardSigner
from duly.relay.dependencies import RelayDependencies
from duly.relay.relay import Relay
from duly.relay.settings import CONCURRENCY, GRACE, PER_DESTINATION, relay_settings
from duly.service.service_thread import new_event_loop

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from duly.core.host import Host
    from duly.core.retry import Backoff
    from duly.http_client.job_clients import JobClients
    from duly.jobs.registry import Registry
    from duly.receiver.router import Router
    from duly.relay.sender import Sender
    from duly.relay.settings import RelaySettings
    from duly.relay.stats import Relayed
    from duly.service.service_thread import Until
    from duly.service.wakeup import Wakeup
    from duly.stores.orm.begin import SameDatabase
    from duly.stores.store import Store
    from duly.webhooks.secrets import Secrets

Sending = TypeVar("Sending", bound="Callable[..., Any]")
# Stands for a signer that is a function.
OWN: object = object()


class RelayVerbs:
    """What `Duly` does to send what was staged."""

    store: Store
    registry: Registry
    wakeup: Wakeup
    site: Router
    _callers: JobClients
    _opener: SameDatabase | None
    _host: Host

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
            self.registry.outgoing.add_transport(
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

    @overload
    def signer(self, name: str) -> Callable[[Sending], Sending]: ...
    @overload
    def signer(self, name: str, *, secret: Secrets) -> None: ...

    def signer(self, name: str, *, secret: object = OWN) -> Any:
        """Register a signer by the name that ``sign=`` knows it by.

        With ``secret=`` it signs as Standard Webhooks: ``whsec_…`` makes v1 signatures, ``whsk_…``
        v1a; with several keys each message carries a signature of each. As a decorator it takes a
        function of the message that returns headers, for an API with its own way.
        """
        checked_name("the name of a signer", name, 'app.signer("ours", secret=…)')
        if secret is None:
            raise UsageError(f"the secret of signer {name} is None: check your settings")
        if secret is not OWN:
            self.registry.outgoing.add_signer(name, StandardSigner(secret))
            return None

        def add(function: Sending) -> Sending:
            self.registry.outgoing.add_signer(name, OwnSigner(function))
            return function

        return add

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
            raise SyncAsyncMismatch("an event loop is running here: use await app.aio.relay(…)")
        settings = relay_settings(concurrency, per_destination, lease, grace)
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(self._relay_and_release(settings, checked_until(until)))

    async def _relay_and_release(self, settings: RelaySettings, until: Until) -> Relayed:
        try:
            return await self.relaying(settings).run(until)
        finally:
            await self.release_loop()

    async def release_loop(self) -> None:
        """Give back what the running event loop holds: connections to the database, and others."""
        await self._callers.aclose_loop()
        if self._opener is not None:
            await self._opener.release()
        await self.store.aclose_loop()

    @property
    def in_one_loop(self) -> bool:
        """Whether receiver, worker and relay of one process must share an event loop."""
        return self._opener is not None and self._opener.in_one_loop

    def enter_loop(self) -> None:
        """Refuse the running event loop where the pool of ``begin=`` belongs to another one."""
        if self._opener is not None:
            self._opener.enter_loop()

    def relaying(self, settings: RelaySettings, sender: Sender | None = None) -> Relay:
        """A relay that has not begun, for the running event loop."""
        self.enter_loop()
        outgoing = self.registry.outgoing
        hidden = texts_to_hide(self.site, outgoing, self.store)
        parts = RelayDependencies(self.store, outgoing, self.wakeup, hidden, self._host)
        return Relay(parts, settings, sender)


class AsyncRelayVerbs:
    """The same verbs awaited."""

    _jobs_of: RelayVerbs

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
