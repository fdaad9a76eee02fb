"""`Duly`: sources, handlers and a store in one object that a web server can serve."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from duly.app.admin import refuse_joined
from duly.app.checks import (
    checked_switch,
    refuse_duplicate_name,
    refuse_inline,
    with_handlers,
    with_inline_timeout,
)
from duly.app.jobs import AsyncJobVerbs, JobVerbs
from duly.core.defaults import BODIES_KEPT
from duly.core.defaults import names as table_names
from duly.core.errors import UsageError
from duly.core.exports import export, old_names
from duly.core.onestep import finish
from duly.core.retry import Backoff
from duly.core.validation import checked_clock, checked_count, checked_duration, checked_scope, kind
from duly.inbox.forget import Forgotten, forget_committed
from duly.inbox.route import (
    AS_NEEDED,
    BODY_LIMIT,
    Route,
    checked_bodies,
    checked_keep,
    checked_limit,
    checked_name,
    checked_tenant,
    kept_headers,
)
from duly.jobs.handlers import EVENT_ATTEMPTS, checked_pattern
from duly.jobs.handlers import QUEUE as QUEUE_NAME
from duly.jobs.order import order_of
from duly.outbox.egress import Egress
from duly.receiver import asgi, wsgi
from duly.receiver.direct import check_direct_delivery
from duly.receiver.receiver import Database, Receiver
from duly.receiver.responses import Reply
from duly.receiver.router import Router
from duly.stores.open import store
from duly.stores.orm.begin import SameDatabase, begin_of
from duly.stores.store import Store
from duly.webhooks.source import AS_THE_PROVIDER, Source
from duly.webhooks.strict_json import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from duly.core.clock import Clock
    from duly.core.versions import Tie
    from duly.inbox.event import Event
    from duly.receiver.asgi import Receive, Scope, Send
    from duly.stores.join.protocols import BeginsTransactions
    from duly.stores.orm.begin import Begin
    from duly.webhooks.delivery import Headers
    from duly.webhooks.event_fields import VerifiedDelivery
    from duly.webhooks.provider import Provider
    from duly.webhooks.secrets import Secrets
    from duly.webhooks.source import MissingId, Parse, ReplayedBody

Handling = TypeVar("Handling", bound="Callable[..., Any]")
# Most providers wait 5 seconds or longer for an answer.
DEADLINE = timedelta(seconds=5)
BODY_DEADLINE = timedelta(seconds=10)
QUEUE = 2000
# Verbs that an app had itself, before there was ``app.jobs``.
MOVED_TO_JOBS = {name: f"jobs.{name}" for name in ("dead", "replay", "discard", "resolve", "stats")}


@export
@old_names("app", **MOVED_TO_JOBS)
class Duly(JobVerbs):
    """An application that receives webhooks and runs jobs: ASGI as it stands, WSGI as ``app.wsgi``.

    Args:
        url: ``sqlite:///shop.db``, ``postgresql://…`` or ``memory:``; taken from ``begin`` where
            that is given alone.
        begin: who opens the transactions of handlers: a SQLAlchemy ``sessionmaker`` or
            ``async_sessionmaker``, or ``duly.django("default")``. duly itself unless given.
        prefix: what the names of duly's tables start with.
        schema: the PostgreSQL schema they are in.
        clock: a function that returns the time, for tests.
        durability: ``any`` accepts a server that may lose what it has acknowledged.
        connections: how many connections duly's own pool may open to PostgreSQL.
        deadline: how long a delivery may wait for its commit before its sender is told to come
            again.
        body_deadline: how long a body may take to arrive.
        queue: how many events may wait for a commit.
        egress: where messages and the calls of jobs may go: https, to the outside world, unless
            given.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        begin: BeginsTransactions | None = None,
        prefix: str | None = None,
        schema: str | None = None,
        clock: Clock | None = None,
        durability: str = "required",
        connections: int = 10,
        deadline: timedelta = DEADLINE,
        body_deadline: timedelta = BODY_DEADLINE,
        queue: int = QUEUE,
        egress: Egress = Egress(),  # noqa: B008  # it cannot be changed
    ) -> None:
        names, trusted_clock = table_names(prefix, schema), checked_clock(clock)
        orm = None if begin is None else begin_of(begin, names, trusted_clock)
        if url is None:
            if orm is None:
                raise UsageError("which database? Duly('sqlite:///shop.db'), or begin= of your ORM")
            url = orm.url()
        checked_duration("deadline", deadline)
        checked_duration("body_deadline", body_deadline)
        checked_count("queue", queue, most=1_000_000)
        database = store(
            url,
            prefix=prefix,
            schema=schema,
            clock=clock,
            durability=durability,
            connections=connections,
        )
        self._connections, self._deadline, self._queue = connections, deadline, queue
        self._given_begin = begin
        self._begin_jobs(egress)
        self._bind(database, orm)
        self.site = Router(self.receiver, database.async_runner, body_deadline)
        self.aio = AsyncDuly(self)

    def _bind(self, database: Store, begin: Begin | None) -> None:
        """Receive, work and send on a database; handlers in the transactions of ``begin``."""
        self.store, self._begin = database, begin
        self._opener = opener = None if begin is None else SameDatabase(begin, database)
        if begin is not None:
            begin.register_app(self)

        async def release() -> None:
            if opener is not None:
                await opener.release()
            await database.aclose()

        self.receiver = Receiver(
            Database(
                database.sync_runner,
                database.async_runner,
                opener,
                release,
                self._connections,
            ),
            clock=database.clock,
            deadline=self._deadline,
            queue=self._queue,
            on_enqueued=self.wakeup.notify,
            sources=lambda: [route.source for route in self.site.routes.values()],
            attendance=self.registry.outgoing.relay_liveness,
        )

    @contextmanager
    def bound_to(
        self, database: Store, *, begin: BeginsTransactions | None = None
    ) -> Iterator[Self]:
        """Work on another database until the end of the block, by its clock: for tests.

        Sources, handlers, schedules and transports stay as they are. Who opened the other database
        closes it. Nothing of the app may be at work when the block begins or ends.

        Args:
            database: where to receive, work and send, as ``duly.store(url)`` makes it.
            begin: who opens the transactions of handlers there; the app's own ``begin=`` unless
                given, which is asked anew where it leads, and must lead to the same database.
        """
        if not isinstance(database, Store):
            raise UsageError(f"which store? bound_to(duly.store(url)), not {kind(database)}")
        given = self._given_begin if begin is None else begin
        orm = None if given is None else begin_of(given, database.names, database.clock)
        kept = self._given_begin, self.store, self._begin, self._opener, self.receiver
        self._given_begin = given
        self._bind(database, orm)
        self.site.rebind(self.receiver, database.async_runner)
        try:
            yield self
        finally:
            self.receiver.close()
            self._callers.close()
            self._given_begin, self.store, self._begin, self._opener, self.receiver = kept
            self.site.rebind(self.receiver, self.store.async_runner)

    def source(
        self,
        name: str,
        *,
        secret: Secrets,
        provider: str | Provider | None = None,
        tenant: Callable[[VerifiedDelivery], str] | None = None,
        inline: bool = False,
        keep: timedelta | Literal["as needed"] | None = AS_NEEDED,
        bodies: timedelta | None = BODIES_KEPT,
        limit: int = BODY_LIMIT,
        headers: Iterable[str] = (),
        decompress: bool = False,
        url: str | None = None,
        tolerance: timedelta | Literal["provider"] | None = AS_THE_PROVIDER,
        missing_id: MissingId = "body",
        parse: Parse = "accept",
        replayed_body: ReplayedBody = "conflict",
        legacy: bool = True,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """Receive a provider's deliveries at ``/name``.

        Args:
            name: a part of the path, and of the scope in which the event ids are known.
            secret: one secret, several, or a mapping from names to secrets.
            provider: whose deliveries; the provider of that name unless given.
            tenant: tells from the verified delivery whose it is; ids are then known per tenant.
            inline: run the handlers inside the accepting transaction, before the answer.
            keep: how long events are remembered; None for ever. Never less than the provider may
                repeat them.
            bodies: how long their bodies are kept.
            limit: how many bytes a body may have.
            headers: names of headers to keep beside those that the profile names.
            decompress: accept gzip and deflate; the limit holds for what comes out, too.
            url: as in `Source`, like all that follow.
            tolerance: as in `Source`.
            missing_id: as in `Source`.
            parse: as in `Source`.
            replayed_body: as in `Source`.
            legacy: as in `Source`.
            limits: as in `Source`.
        """
        path = f"/{checked_name(name)}"
        if path in self.site.routes:
            raise UsageError(f"there is a source {name} already: give this one another name")
        source = Source(
            name if provider is None else provider,
            secret,
            name=name,
            url=url,
            tolerance=tolerance,
            missing_id=missing_id,
            parse=parse,
            replayed_body=replayed_body,
            legacy=legacy,
            limits=limits,
        )
        self.site.routes[path] = Route(
            source,
            checked_tenant(tenant),
            checked_switch("inline", inline),
            checked_limit(limit),
            checked_switch("decompress", decompress),
            checked_keep(keep, source),
            checked_bodies(bodies),
            kept_headers(source.provider, headers),
            any(not handshake.signed for handshake in source.provider.handshakes),
            self.registry,
        )

    def on(
        self,
        source: str,
        pattern: str = "*",
        *,
        name: str | None = None,
        queue: str = QUEUE_NAME,
        attempts: int = EVENT_ATTEMPTS,
        timeout: timedelta | None = None,
        backoff: Backoff = Backoff(),  # noqa: B008  # it cannot be changed
        order: tuple[str, str] | None = None,
        tie: Tie | None = None,
        refetch: Callable[[Event], Any] | None = None,
    ) -> Callable[[Handling], Handling]:
        """Handle the events of a source whose type matches: an exact type, or a glob.

        The function asks by parameter name for what it needs: ``event``, ``job``, ``tx``.

        Args:
            source: the name of a source.
            pattern: the event type, or a glob of them.
            name: what the database knows the handler by; its own name unless given.
            queue: where its jobs wait.
            attempts: how often a job may fail before it is dead. Five unless given.
            timeout: how long one run may take: five minutes, half a minute where the source is
                inline, on SQLite ten seconds with ``tx``.
            backoff: how long a job waits after an error.
            order: paths into the body, of what names the resource and of what orders its versions:
                events that come later than a newer one are passed over as stale.
            tie: what to do with equal versions: ``apply`` or ``skip``.
            refetch: a function of the event that asks the source of truth, just before the handler
                and outside of its transaction; ``event.current`` is what it returned.
        """
        route, wanted = self._route(source), checked_pattern(pattern)
        guarded = order_of(order, tie)
        if refetch is not None and not callable(refetch):
            raise UsageError(f"refetch must be a function of the event, not {kind(refetch)}")

        def add(function: Handling) -> Handling:
            handler = self._handler(function, name, queue, attempts, timeout, backoff)
            handler = replace(handler, order=guarded, refetch=refetch)
            refuse_duplicate_name(route, handler)
            if route.inline:
                refuse_inline(route, handler, self._begin)
                handler = handler if timeout is not None else with_inline_timeout(handler)
            route.handlers.add(wanted, handler)
            self.registry.add_event(route.name, handler)
            return function

        return add

    def _route(self, source: object) -> Route:
        route = self.site.routes.get(f"/{source}") if isinstance(source, str) else None
        if route is None:
            known = ", ".join(path[1:] for path in self.site.routes) or "none yet"
            asked = repr(source[:60]) if isinstance(source, str) else kind(source)
            raise UsageError(
                f"there is no source {asked}: call app.source(…) first (there is {known})"
            )
        return route

    def receive(
        self,
        source: str,
        headers: Headers,
        body: bytes,
        *,
        method: str = "POST",
        url: str | None = None,
        remote: str | None = None,
    ) -> Reply:
        """Receive one delivery from wherever it came: verify, commit, answer.

        For frameworks without an adapter, and for tests. The reply has ``status``, ``body``,
        ``content_type`` and ``headers``; send it as it is.
        """
        route = self._route(source)
        given = check_direct_delivery(route, headers, body, method=method, url=url, remote=remote)
        if isinstance(given, Reply):
            return given
        return self.receiver.receive_blocking(route, *given)

    def forget(self, source: str, event_id: str, *, tenant: str | None = None) -> Forgotten:
        """Forget an event, so that its sender's next delivery of it is processed again.

        Refused while a job of the event is ready or leased; its dead jobs are discarded with it.
        Returns the handlers that will run again.
        """
        route, scope = self._to_forget(source, event_id, tenant)
        done = finish(forget_committed(self.store.sync_runner, scope, event_id))
        return with_handlers(done, route)

    def _to_forget(self, source: object, event_id: object, tenant: object) -> tuple[Route, str]:
        route = self._route(source)
        if not isinstance(event_id, str) or not event_id:
            raise UsageError(
                f"event_id must be the id that the sender gave it, not {kind(event_id)}"
            )
        if (tenant is not None) != (route.tenant is not None):
            told = "has tenants: name one with" if route.tenant else "has no tenants: leave out"
            raise UsageError(f"source {route.name} {told} tenant=")
        if tenant is not None and (not isinstance(tenant, str) or not tenant):
            raise UsageError(f"tenant must be a string that is not empty, not {kind(tenant)}")
        scope = checked_scope(route.scope(tenant))
        refuse_joined("app.forget", self._opener)
        return route, scope

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        await asgi.serve(self.site, scope, receive, send)

    def wsgi(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Serve one WSGI request."""
        return wsgi.serve(self.site, environ, start_response)

    def close(self) -> None:
        """Write what is counted, and close the store."""
        self.receiver.close()
        self._callers.close()
        self.store.close()

    async def aclose(self) -> None:
        """The same, awaited; connections of the running event loop included."""
        await self.receiver.aclose()
        await self._callers.aclose_loop()
        self._callers.close()
        await self.store.aclose()


@old_names("app.aio", **MOVED_TO_JOBS)
class AsyncDuly(AsyncJobVerbs):
    """The same verbs awaited: ``app.aio``."""

    def __init__(self, app: Duly) -> None:
        super().__init__(app)
        self._app = app

    async def receive(
        self,
        source: str,
        headers: Headers,
        body: bytes,
        *,
        method: str = "POST",
        url: str | None = None,
        remote: str | None = None,
    ) -> Reply:
        """Receive one delivery from wherever it came: verify, commit, answer."""
        route = self._app._route(source)
        given = check_direct_delivery(route, headers, body, method=method, url=url, remote=remote)
        if isinstance(given, Reply):
            return given
        return await self._app.receiver.receive(route, *given)

    async def forget(self, source: str, event_id: str, *, tenant: str | None = None) -> Forgotten:
        """Forget an event, so that its sender's next delivery of it is processed again."""
        route, scope = self._app._to_forget(source, event_id, tenant)
        done = await forget_committed(self._app.store.async_runner, scope, event_id)
        return with_handlers(done, route)
