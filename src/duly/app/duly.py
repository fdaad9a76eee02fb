"""`Duly`: sources, handlers and a store in one object that a web server can serve."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

from duly.app.admin import JobAdmin, OutboxAdmin
from duly.app.aio import AsyncDuly
from duly.app.calls import Calls
from duly.app.options import (
    MOVED_TO_JOBS,
    HandlerOptions,
    PlainJobOptions,
    ReceiveOptions,
    RelayOptions,
    SourceOptions,
    WorkOptions,
    checked_switch,
    handler_from,
    refuse_duplicate_name,
    refuse_inline,
    refuse_job_options,
    refuse_refetch,
    refuse_renamed,
    with_inline_timeout,
)
from duly.app.process import Process, run_relay, run_worker
from duly.app.sync import finish_block, run_in_own_loop
from duly.core.defaults import BODIES_KEPT
from duly.core.defaults import names as table_names
from duly.core.errors import UsageError
from duly.core.exports import export, old_names, show_keywords
from duly.core.host import HOST
from duly.core.onestep import finish
from duly.core.validation import checked_clock, checked_count, checked_duration, kind
from duly.http_client.job_clients import JobClients
from duly.inbox.route import (
    AS_NEEDED,
    MAX_BODY,
    Route,
    checked_body_retention,
    checked_max_body,
    checked_name,
    checked_tenant,
    checked_window,
    kept_headers,
)
from duly.jobs.handlers import EVENT_ATTEMPTS, checked_pattern, handler_of
from duly.jobs.options import EnqueueManyOptions, EnqueueOptions
from duly.jobs.order import order_of
from duly.jobs.registry import JobRegistry, Registries
from duly.jobs.schedule import Schedules, schedule_of
from duly.jobs.tx import Tx
from duly.outbox import registry as outbox
from duly.outbox.egress import Egress
from duly.outbox.message import ATTEMPTS, BACKOFF
from duly.outbox.options import SendOptions
from duly.outbox.signing import OwnSigner, StandardSigner
from duly.receiver import asgi, wsgi
from duly.receiver.direct import check_direct_delivery
from duly.receiver.responses import Reply
from duly.receiver.router import Router
from duly.relay.settings import PER_DESTINATION
from duly.service.service_thread import new_event_loop
from duly.service.wakeup import Wakeup
from duly.stores.open import store
from duly.stores.orm.begin import begin_of
from duly.stores.store import Store
from duly.webhooks.receive_plan import compile_plan
from duly.webhooks.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from typing import Unpack

    from duly.core.clock import Clock
    from duly.core.host import Host
    from duly.core.json_bytes import Storable
    from duly.core.retry import Backoff
    from duly.core.versions import Tie
    from duly.inbox.event import Event
    from duly.inbox.forget import Forgotten
    from duly.jobs.enqueue import Enqueued
    from duly.jobs.schedule import Missed
    from duly.outbox.message import Staged
    from duly.receiver.asgi import Receive, Scope, Send
    from duly.receiver.receiver import Receiver
    from duly.relay.stats import Relayed
    from duly.stores.join.protocols import BeginsTransactions, JoinableTx
    from duly.stores.orm.begin import Begin
    from duly.webhooks.delivery import Headers
    from duly.webhooks.event_fields import VerifiedDelivery
    from duly.webhooks.provider import Provider
    from duly.webhooks.secrets import Secrets
    from duly.worker.stats import Worked

Handling = TypeVar("Handling", bound="Callable[..., Any]")
# Most providers wait 5 seconds or longer for an answer.
DEADLINE = timedelta(seconds=5)
BODY_DEADLINE = timedelta(seconds=10)
QUEUE = 2000
# Stands for a signer that is a function.
OWN: object = object()


@export
@old_names("app", **MOVED_TO_JOBS)
class Duly:
    """An application that receives webhooks and runs jobs: ASGI as it stands, WSGI as ``app.wsgi``.

    Args:
        url: ``sqlite:///shop.db``, ``postgresql://…`` or ``memory:``; taken from ``begin`` where
            that is given alone.
        begin: what opens the transactions of handlers: a SQLAlchemy ``sessionmaker`` or
            ``async_sessionmaker``, or ``duly.django.database("default")``. duly itself unless
            given.
        prefix: what the names of duly's tables start with.
        schema: the PostgreSQL schema they are in.
        clock: a function that returns the time, for tests.
        durability: ``any`` accepts a server that may lose what it has acknowledged.
        connections: how many connections duly's own pool may open to PostgreSQL.
        deadline: how long a delivery may wait for its commit before it is answered with 503.
        body_deadline: how long a body may take to arrive.
        queue: how many events may wait for a commit.
        egress: where messages and the calls of jobs may go: https, to the outside world, unless
            given.
    """

    # What its services take from the machine; the simulation has its own.
    _host: Host = HOST

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
        if not isinstance(egress, Egress):
            raise UsageError(f"egress must be a duly.Egress(…), not {kind(egress)}")
        # What is registered; internal, like all that has no docstring here.
        self.registries = Registries(
            JobRegistry(self._host), outbox.OutboxRegistry(egress, self._host)
        )
        self.schedules = Schedules()
        self.wakeup = Wakeup()
        self.clients = JobClients(self.registries.outbox)
        self._connections, self._deadline, self._queue = connections, deadline, queue
        self.process = self._bind(database, begin, orm)
        self.router = Router(self.receiver, database.async_runner, body_deadline)
        self._calls = Calls(self, "sync", Tx)
        self.aio = AsyncDuly(self)

    def _bind(
        self, database: Store, given: BeginsTransactions | None, begin: Begin | None
    ) -> Process:
        return Process(
            self,
            database,
            given,
            begin,
            connections=self._connections,
            deadline=self._deadline,
            queue=self._queue,
        )

    @property
    def store(self) -> Store:
        """Where the app receives, works and sends."""
        return self.process.store

    @property
    def receiver(self) -> Receiver:
        """What stands between a request and its answer; internal."""
        return self.process.receiver

    @contextmanager
    def bound_to(
        self, database: Store, *, begin: BeginsTransactions | None = None
    ) -> Iterator[Self]:
        """Work on another database until the end of the block, by its clock: for tests.

        Sources, handlers, schedules and transports stay as they are. The caller, who opened the
        other database, closes it. No part of the app may run when the block begins or ends.

        Args:
            database: where to receive, work and send, as ``duly.store(url)`` makes it.
            begin: what opens the transactions of handlers there; the app's own ``begin=`` unless
                given, which is asked again where it leads, and must lead to the same database.
        """
        if not isinstance(database, Store):
            raise UsageError(f"which store? bound_to(duly.store(url)), not {kind(database)}")
        kept = self.process
        given = kept.given_begin if begin is None else begin
        orm = None if given is None else begin_of(given, database.names, database.clock)
        self.process = self._bind(database, given, orm)
        self.router.rebind(self.receiver, database.async_runner)
        try:
            yield self
        finally:
            self.receiver.close()
            self.clients.close()
            self.process = kept
            self.router.rebind(self.receiver, self.store.async_runner)

    @show_keywords(SourceOptions, Source)
    def source(
        self,
        name: str,
        *,
        secret: Secrets,
        provider: str | Provider | None = None,
        tenant: Callable[[VerifiedDelivery], str] | None = None,
        inline: bool = False,
        window: timedelta | Literal["as needed"] | None = AS_NEEDED,
        body_retention: timedelta | None = BODIES_KEPT,
        max_body: int = MAX_BODY,
        headers: Iterable[str] = (),
        decompress: bool = False,
        **options: Unpack[SourceOptions],
    ) -> None:
        """Receive a provider's deliveries at ``/name``.

        Args:
            name: a part of the path, and of the scope in which the event ids are known.
            secret: one secret, several, or a mapping from names to secrets.
            provider: whose deliveries; the provider of that name unless given.
            tenant: a function of the verified delivery that returns its tenant; ids are then known
                per tenant.
            inline: run the handlers inside the accepting transaction, before the answer.
            window: how long events are remembered; None for ever. Never less than the provider may
                repeat them.
            body_retention: how long their bodies are kept.
            max_body: how many bytes a body may have.
            headers: names of headers to keep beside those that the profile names.
            decompress: accept gzip and deflate; ``max_body`` holds for what comes out, too.
            **options: ``url``, ``tolerance``, ``missing_id``, ``parse``, ``replayed_body``,
                ``legacy`` and ``limits``, as in `Source`.
        """
        refuse_renamed(options)
        path = f"/{checked_name(name)}"
        if path in self.router.routes:
            raise UsageError(f"there is a source {name} already: give this one another name")
        source = Source(name if provider is None else provider, secret, name=name, **options)
        self.router.routes[path] = Route(
            source,
            checked_tenant(tenant),
            checked_switch("inline", inline),
            checked_max_body(max_body),
            checked_switch("decompress", decompress),
            checked_window(window, source),
            checked_body_retention(body_retention),
            kept_headers(source.provider, headers),
            any(not handshake.signed for handshake in source.provider.handshakes),
            self.registries,
            plan=compile_plan(source),
        )

    @show_keywords(HandlerOptions, handler_from, attempts=EVENT_ATTEMPTS)
    def on(
        self,
        source: str,
        pattern: str = "*",
        *,
        order: tuple[str, str] | None = None,
        tie: Tie | None = None,
        refetch: Callable[[Event], Any] | None = None,
        **options: Unpack[HandlerOptions],
    ) -> Callable[[Handling], Handling]:
        """Handle the events of a source whose type matches: an exact type, or a glob.

        The function asks by parameter name for what it needs: ``event``, ``job``, ``tx``.

        Args:
            source: the name of a source.
            pattern: the event type, or a glob of them.
            order: paths into the body, of what names the resource and of what orders its versions:
                events that come later than a newer one are passed over as stale.
            tie: what to do with equal versions: ``apply`` or ``skip``.
            refetch: a function of the event that asks the source of truth, just before the handler
                and outside of its transaction; ``event.current`` is what it returned.
            **options: ``name``, ``queue``, ``attempts`` (five unless given), ``timeout`` (half a
                minute where the source is inline) and ``backoff``, as in `job`.
        """
        refuse_job_options(
            options,
            ["many"],
            "@app.on",
            "each event is handled by itself. Enqueue a bulk job in its handler: "
            "tx.enqueue(sell, event.json)",
        )
        route, wanted = self.router.route_named(source), checked_pattern(pattern)
        guarded = order_of(order, tie)
        if refetch is not None and not callable(refetch):
            raise UsageError(f"refetch must be a function of the event, not {kind(refetch)}")
        given: HandlerOptions = {"attempts": EVENT_ATTEMPTS, **options}

        def add(function: Handling) -> Handling:
            handler = handler_from(function, self.process, **given)
            handler = replace(handler, order=guarded, refetch=refetch)
            refuse_duplicate_name(route, handler)
            if route.inline:
                refuse_inline(route, handler, self.process)
                if given.get("timeout") is None:
                    handler = with_inline_timeout(handler)
            route.handlers.add(wanted, handler)
            self.registries.jobs.add_event(route.name, handler)
            return function

        return add

    @overload
    def job(self, function: Handling, /) -> Handling: ...
    @overload
    def job(
        self, function: None = ..., /, **options: Unpack[PlainJobOptions]
    ) -> Callable[[Handling], Handling]: ...

    @show_keywords(PlainJobOptions, handler_from)
    def job(
        self, function: Callable[..., Any] | None = None, /, **options: Unpack[PlainJobOptions]
    ) -> Any:
        """Make a function a job that can be enqueued.

        It asks by parameter name for what it needs: ``job``, ``tx``. With ``tx`` its writes, the
        jobs it enqueues and its own end are one COMMIT; without, no transaction is open.

        With ``many`` it takes a list of jobs, ``jobs``, and ``tx``: the work and the ends of all of
        them are one COMMIT. If anything but success comes of it, all is rolled back, and each job
        runs alone, in a list of one, where its own outcome counts.

        Args:
            function: the function, where the decorator stands without parentheses.
            **options: ``name``, which the database knows it by, its own name unless given;
                ``queue``, where it waits unless the caller says otherwise; ``attempts``, how often
                it may fail before it is dead, one unless given; ``timeout``, how long one run may
                take: five minutes, on SQLite ten seconds with ``tx``; ``backoff``, how long it
                waits after an error; ``many``, how many jobs one call takes at most; ``order``,
                paths into the payload, of what names a resource and of what orders its versions:
                jobs that come later than a newer one are passed over as stale; ``tie``, what to do
                with equal versions: ``apply`` or ``skip``.
        """
        refuse_refetch(options)

        def add(call: Handling) -> Handling:
            handler = handler_from(call, self.process, **options)
            if "event" in handler.wants:
                raise UsageError(
                    f"job {handler.name} asks for event, and a plain job has none: ask for job, "
                    "and read job.payload"
                )
            self.registries.jobs.add(handler)
            return call

        return add if function is None else add(function)

    @show_keywords(HandlerOptions, handler_from)
    def cron(
        self,
        expression: str,
        /,
        *,
        tz: str = "UTC",
        missed: Missed = "latest",
        **options: Unpack[HandlerOptions],
    ) -> Callable[[Handling], Handling]:
        """Make a function a job that is enqueued once at each slot of a cron expression.

        Any number of workers may run: each slot leads to one job, whose payload is
        ``{"slot": "2026-11-16T06:15:00+00:00"}``, in UTC. Needs the extra ``cron``.

        A schedule begins when a worker first sees it, and so does one whose expression or time
        zone was changed. When clocks are changed it does as Debian's cron: an entry at a fixed time
        that the change leaves out runs right after it, and one that the change repeats runs once;
        an entry with ``*`` in its minutes or hours follows the time that passes.

        Args:
            expression: minute, hour, day of month, month, day of week: ``*/5 * * * *``.
            tz: the time zone in which the expression is read, such as ``Europe/Berlin``.
            missed: what to do about slots at which no worker ran: run only the ``latest`` of them,
                ``skip`` those older than a minute, or run ``all``, up to the latest thousand.
            **options: ``name``, ``queue``, ``attempts``, ``timeout`` and ``backoff``, as in `job`.
        """
        refuse_job_options(
            options,
            ("many", "order", "tie"),
            "@app.cron",
            "each slot is one job, which may call tx.enqueue",
        )

        def add(call: Handling) -> Handling:
            named = handler_of(call, options.get("name")).name
            schedule = schedule_of(named, expression, tz, missed)
            self.job(**options)(call)
            self.schedules.add(schedule)
            return call

        return add

    def transport(
        self,
        name: str,
        *,
        attempts: int = ATTEMPTS,
        timeout: timedelta = outbox.TIMEOUT,
        concurrency: int = PER_DESTINATION,
        backoff: Backoff = BACKOFF,
    ) -> Callable[[Handling], Handling]:
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
        outbox.checked_name("the name of a transport", name, '@app.transport("mail")')

        def add(function: Handling) -> Handling:
            self.registries.outbox.add_transport(
                outbox.transport_of(
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
    def signer(self, name: str) -> Callable[[Handling], Handling]: ...
    @overload
    def signer(self, name: str, *, secret: Secrets) -> None: ...

    def signer(self, name: str, *, secret: object = OWN) -> Any:
        """Register a signer by the name that ``sign=`` knows it by.

        With ``secret=`` it signs as Standard Webhooks: ``whsec_…`` makes v1 signatures, ``whsk_…``
        v1a; with several keys each message carries a signature of each. As a decorator it takes a
        function of the message that returns headers, for an API with its own way.
        """
        outbox.checked_name("the name of a signer", name, 'app.signer("ours", secret=…)')
        if secret is None:
            raise UsageError(f"the secret of signer {name} is None: check your settings")
        if secret is not OWN:
            self.registries.outbox.add_signer(name, StandardSigner(secret))
            return None

        def add(function: Handling) -> Handling:
            self.registries.outbox.add_signer(name, OwnSigner(function))
            return function

        return add

    @show_keywords(EnqueueOptions, JobRegistry.new)
    def enqueue(
        self,
        job: Callable[..., Any] | str,
        payload: Storable = None,
        *,
        tx: JoinableTx | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> Enqueued:
        """Enqueue a job; it runs after the COMMIT of the transaction that it is enqueued in.

        Args:
            job: the function that was registered, or its name.
            payload: what it needs to know, as JSON.
            tx: your own open transaction: a connection or session that duly recognises, or the
                ``tx`` of a handler. Without one it is committed at once, or, with
                ``begin=duly.django.database(…)``, joins the ``atomic`` that is open around it.
            **options: ``key`` names the work. While it is known, the job that it led to is
                returned and none is added; your transaction is unharmed. ``window`` is how long
                the key is known. Then a new job starts, unless the old one still has work to do.
                ``delay`` is how long to wait before it runs, or ``at`` when to run it.
                ``priority``: the smallest number runs first. ``queue`` is where it waits, unless
                in its own.
        """
        return finish(self._calls.enqueue(job, payload, tx, **options))

    @show_keywords(EnqueueManyOptions, JobRegistry.new)
    def enqueue_many(
        self,
        job: Callable[..., Any] | str,
        payloads: Iterable[Storable],
        *,
        tx: JoinableTx | None = None,
        **options: Unpack[EnqueueManyOptions],
    ) -> list[Enqueued]:
        """`enqueue` for many jobs of one handler: all of them or none, in one transaction.

        Its options are those of `enqueue`, with ``keys``, one for each job, instead of ``key``.
        """
        return finish(self._calls.enqueue_many(job, payloads, tx, **options))

    @show_keywords(SendOptions, outbox.OutboxRegistry.new)
    def send(
        self, url: str, *, tx: JoinableTx | None = None, **options: Unpack[SendOptions]
    ) -> Staged:
        """Stage a message; it is sent after the COMMIT of the transaction that it is staged in.

        Every attempt carries the same id, as ``Idempotency-Key`` (and as ``webhook-id`` where it is
        signed), so that the other side can take it once.

        Args:
            url: where to: ``https://…``, or ``name:…`` for a transport of your own.
            tx: your own open transaction, as in `enqueue`.
            **options: ``json`` is the body, or ``data``: bytes, text, or a mapping to send as a
                form. ``headers`` are further headers; none that holds a secret. ``sign`` is the
                name of a signer. ``key`` names the message. While it is known at this address, the
                message that it led to is returned and none is added; your transaction is
                unharmed. ``window`` is how long the key is known. Then a new message may be
                staged, unless the old one still has to be sent. ``method`` is POST unless given.
                ``delay`` is how long to wait before it is sent, or ``at`` when to send it.
                ``attempts`` is how often it may fail before it is dead: 20 unless given, about two
                days.
        """
        return finish(self._calls.send(url, tx, **options))

    def transaction(self) -> AbstractContextManager[Tx]:
        """A transaction of duly's own, or of ``begin=``: committed at the end of the block.

        Inside ``atomic`` of Django's, on the database of ``begin=duly.django.database(…)``, it is a
        savepoint there, and is committed with that block.
        """
        return finish_block(self._calls.transaction())

    @property
    def jobs(self) -> JobAdmin:
        """Dead jobs, replay, and counts."""
        return JobAdmin(self.store.sync_runner, self.wakeup, self.process.begin)

    @property
    def outbox(self) -> OutboxAdmin:
        """Messages that are not sent yet, dead messages, replay, and counts."""
        return OutboxAdmin(self.store.sync_runner, self.wakeup, self.process.begin)

    @show_keywords(WorkOptions, run_worker)
    def work(self, **options: Unpack[WorkOptions]) -> Worked:
        """Run jobs in this thread until none can run, or, with ``until="stopped"``, without end.

        ``duly worker`` does this with signals and logs; here it serves tests and scripts.

        Args:
            **options: ``until``: ``idle`` ends when no job can run now, ``stopped`` never by
                itself. ``concurrency`` is how many jobs run at the same time, in each queue.
                ``queues`` are the queues to work on, each with a number of its own if it is a
                mapping; all that handlers name unless given. ``lease`` is how long this worker may
                be silent before its jobs are given to others. ``grace`` is how long jobs may take
                to end after a stop.
        """
        return run_in_own_loop(
            lambda: run_worker(self.process, **options), self.process, "await app.aio.work(…)"
        )

    @show_keywords(RelayOptions, run_relay)
    def relay(self, **options: Unpack[RelayOptions]) -> Relayed:
        """Send messages in this thread until none is left to send now, or without end.

        ``duly relay`` does this with signals and logs; here it serves tests and scripts.

        Args:
            **options: ``until``: ``idle`` ends when no message can be sent now, ``stopped`` never
                by itself. ``concurrency`` is how many messages are in flight at the same time, and
                ``per_destination`` how many of them to one destination. ``lease`` is how long this
                relay may have a message before it is given to another. ``grace`` is how long
                messages in flight may take to end after a stop.
        """
        return run_in_own_loop(
            lambda: run_relay(self.process, **options),
            self.process,
            "await app.aio.relay(…)",
            new_event_loop,
        )

    @show_keywords(ReceiveOptions, check_direct_delivery)
    def receive(
        self, source: str, headers: Headers, body: bytes, **options: Unpack[ReceiveOptions]
    ) -> Reply:
        """Receive one delivery that you have read yourself: verify, commit, answer.

        For frameworks without an integration, and for tests. The reply has ``status``, ``body``,
        ``content_type`` and ``headers``; send it as it is.
        """
        route = self.router.route_named(source)
        given = check_direct_delivery(route, headers, body, **options)
        if isinstance(given, Reply):
            return given
        return self.receiver.receive_blocking(route, *given)

    def forget(self, source: str, event_id: str, *, tenant: str | None = None) -> Forgotten:
        """Forget an event, so that its sender's next delivery of it is processed again.

        Refused while a job of the event is ready or leased; its dead jobs are discarded with it.
        Returns the handlers that will run again.
        """
        return finish(self._calls.forget(source, event_id, tenant))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        await asgi.serve(self.router, scope, receive, send)

    def wsgi(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Serve one WSGI request."""
        return wsgi.serve(self.router, environ, start_response)

    def close(self) -> None:
        """Write what is counted, and close the store."""
        self.receiver.close()
        self.clients.close()
        self.store.close()

    async def aclose(self) -> None:
        """`close`, awaited; closes the connections of the running event loop as well."""
        await self.receiver.aclose()
        await self.clients.aclose_loop()
        self.clients.close()
        await self.store.aclose()
