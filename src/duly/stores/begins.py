"""Transactions opened by the user's own ORM: ``Duly(begin=…)``.

A handler then works in a session of SQLAlchemy's or in a block of Django's, and the claim of its
event is made on the same connection, in the same transaction.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from duly._kernel.errors import Misuse, UnsafeStore
from duly._kernel.inputs import kind
from duly._kernel.session import Opened
from duly.stores.drivers import Colour, type_names
from duly.stores.join import join
from duly.stores.sql.migrations import INSTALLATION, META_READ

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager
    from datetime import timedelta

    from duly._kernel.clock import Clock
    from duly._kernel.options import Names
    from duly._kernel.session import Session
    from duly.stores.base import Store

FORMS = "a SQLAlchemy sessionmaker or async_sessionmaker, or duly.django('default')"


class Begin(Protocol):
    """Who opens the transactions of handlers."""

    @property
    def colour(self) -> Colour:
        """The colour of the handlers that can work in them."""

    def url(self) -> str:
        """The address of the database, in duly's form."""

    def opened(self, *, wait: timedelta) -> AbstractAsyncContextManager[Opened]:
        """A transaction, committed at the end of the block."""


class Unbound(Protocol):
    """What `duly.django` returns: bound to the names and the clock of an application later."""

    def bound(self, names: Names, clock: Clock | None) -> Begin:
        """The same, knowing where duly's tables are."""


def begin_of(begin: object, names: Names, clock: Clock | None) -> Begin:
    """Recognise what the user handed over."""
    found = type_names(begin)
    if "sqlalchemy.sessionmaker" in found:
        return Alchemy(begin, names, clock)
    if "sqlalchemy.async_sessionmaker" in found:
        return AsyncAlchemy(begin, names, clock)
    if isinstance(begin, DjangoAlias):
        return begin.bound(names, clock)
    raise Misuse(f"begin must be {FORMS}, not {kind(begin)}")


class AlchemyMaker:
    """What both colours of SQLAlchemy's factories share."""

    def __init__(self, maker: Any, names: Names, clock: Clock | None) -> None:
        self._maker = maker
        self._names = names
        self._clock = clock

    def url(self) -> str:
        """The address of the engine that the factory's sessions use."""
        bind = self._maker.kw.get("bind")
        if bind is None:
            raise Misuse("begin= has no engine: give the sessionmaker bind=, or the app a url")
        found = bind.engine.url
        plain = found.set(drivername=found.drivername.partition("+")[0], query={})
        return str(plain.render_as_string(hide_password=False))


class Alchemy(AlchemyMaker):
    """A ``sessionmaker``."""

    colour: Colour = "sync"

    @asynccontextmanager
    async def opened(self, *, wait: timedelta) -> AsyncIterator[Opened]:  # noqa: ARG002
        """A session in a transaction; the bound is set where the claim is made."""
        with self._maker() as session, session.begin():
            joined = join(session, self._names, self._clock, colour="sync", verb="begin")
            yield Opened(joined, session.connection(), session)


class AsyncAlchemy(AlchemyMaker):
    """An ``async_sessionmaker``."""

    colour: Colour = "async"

    @asynccontextmanager
    async def opened(self, *, wait: timedelta) -> AsyncIterator[Opened]:  # noqa: ARG002
        """A session in a transaction; the bound is set where the claim is made."""
        async with self._maker() as session, session.begin():
            joined = join(session, self._names, self._clock, colour="async", verb="begin")
            yield Opened(joined, await session.connection(), session)


class DjangoAlias:
    """One of Django's databases, named before its settings are read."""

    def __init__(self, alias: str) -> None:
        self._alias = alias

    def __repr__(self) -> str:
        return f"duly.django({self._alias!r})"

    def bound(self, names: Names, clock: Clock | None) -> Begin:
        """The same, knowing where duly's tables are."""
        return Django(self._alias, names, clock)


class Django:
    """Blocks of ``transaction.atomic``."""

    colour: Colour = "sync"

    def __init__(self, alias: str, names: Names, clock: Clock | None) -> None:
        self._alias = alias
        self._names = names
        self._clock = clock

    def url(self) -> str:
        """The address of the database, from Django's settings."""
        from django.db import connections

        settings = connections[self._alias].settings_dict
        name, engine = str(settings["NAME"]), settings["ENGINE"]
        if engine.endswith("sqlite3"):
            return f"sqlite:///{quote(name)}"
        if not engine.endswith("postgresql"):
            raise Misuse(f"duly works with PostgreSQL and SQLite, this Django database is {engine}")
        user, password = quote(settings["USER"], safe=""), quote(settings["PASSWORD"], safe="")
        account = f"{user}{':' if password else ''}{password}{'@' if user else ''}"
        host, port = settings["HOST"] or "", settings["PORT"] or ""
        where = f"?host={quote(host, safe='')}" if host.startswith("/") else ""
        shown = "" if where else host
        return f"postgresql://{account}{shown}{f':{port}' if port else ''}/{quote(name)}{where}"

    @asynccontextmanager
    async def opened(self, *, wait: timedelta) -> AsyncIterator[Opened]:  # noqa: ARG002
        """A block of ``atomic``; the bound is set where the claim is made."""
        from django.db import close_old_connections, connections, transaction

        close_old_connections()  # Django does so before each of its own requests
        try:
            with transaction.atomic(using=self._alias):
                connection = connections[self._alias]
                joined = join(connection, self._names, self._clock, colour="sync", verb="begin")
                yield Opened(joined, connection, connection)
        finally:
            close_old_connections()


class SameDatabase:
    """A ``begin`` that was seen to lead to the same installation of duly as the store.

    Otherwise the claims of handlers would be made in one database and looked for in another.
    """

    def __init__(self, begin: Begin, store: Store) -> None:
        self._begin = begin
        self._runner = store.awaited if begin.colour == "async" else store.blocking
        self._seen = False

    @asynccontextmanager
    async def opened(self, *, wait: timedelta) -> AsyncIterator[Opened]:
        """A transaction of the ORM's."""
        if not self._seen:
            await self._look(wait)
        async with self._begin.opened(wait=wait) as opened:
            yield opened

    async def _look(self, wait: timedelta) -> None:
        ours = await self._runner.run_single(installation, wait=wait)
        async with self._begin.opened(wait=wait) as opened:
            await opened.session.begin(wait)
            theirs = await installation(opened.session)
        if ours != theirs:
            raise UnsafeStore(
                "begin= and the url of the app lead to different databases: claims would be made "
                "in one and looked for in the other. Leave out the url, or make them the same"
            )
        self._seen = True


async def installation(session: Session) -> str | None:
    """The id that a database was given when duly's tables were made in it."""
    rows = await session.rows(META_READ)
    return next((row["value"] for row in rows if row["name"] == INSTALLATION), None)


def django(alias: str = "default") -> DjangoAlias:
    """Name one of Django's databases for ``Duly(begin=…)``; handlers then run inside ``atomic``."""
    if kind(alias) != "a str" or not alias:
        raise Misuse("django(alias) takes the name of a database in Django's settings")
    return DjangoAlias(alias)
