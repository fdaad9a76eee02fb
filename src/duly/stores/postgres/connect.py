"""duly's own connections to PostgreSQL: their settings, and which servers are refused.

A server that could lose an acknowledged event is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import psycopg
from psycopg import conninfo

from duly.core.defaults import WAIT, Names
from duly.core.errors import UnsafeStore, UsageError
from duly.stores.postgres.session import PostgresAdapter, PostgresSession
from duly.stores.sql.migrations import check_schema
from duly.stores.sql.statements import statements

if TYPE_CHECKING:
    from datetime import timedelta

    from duly.core.clock import Clock
    from duly.core.session import Session

# A caller waits for an answer: a dead link must be noticed in seconds, not in TCP's two hours.
DEADLINES = {
    "application_name": "duly",
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    # Not a deadline: on a database without an encoding (SQL_ASCII, what initdb makes in the C
    # locale) psycopg would hand out text as bytes. asyncpg and Django ask for UTF-8 as well.
    "client_encoding": "UTF8",
}
# psycopg's own default: a statement seen five times is worth preparing.
PREPARE_AFTER = 5

Durability = Literal["required", "any"]
SERVER_CHECK = "server_check"
OLDEST = 140000


@dataclass(frozen=True, slots=True)
class PostgresTarget:
    """A database, the names of duly's tables in it, and how to connect to it."""

    settings: dict[str, Any] = field(repr=False)  # it holds the password
    names: Names
    clock: Clock | None
    durability: Durability
    connections: int

    def session(
        self, adapter: PostgresAdapter, bound: timedelta = WAIT, *, runs_user_code: bool = False
    ) -> Session:
        """A session of duly's own, or one that a handler shares."""
        named = statements("postgres", self.names, "pyformat")
        return PostgresSession(
            adapter, named, self.clock, bound=bound, runs_user_code=runs_user_code
        )

    async def check_server(self, adapter: PostgresAdapter, backend_pid: int) -> dict[str, Any]:
        """Refuse an unsafe server and a wrong schema; return the settings for the pool."""
        session = self.session(adapter)
        server = await inspect_server(session)
        refuse_unsafe(server, self.durability)
        await check_schema(session)
        pooled = server.is_behind_pooler(backend_pid)
        return {**self.settings, "prepare_threshold": None if pooled else PREPARE_AFTER}


def connection_settings(url: str) -> dict[str, Any]:
    """The connection's settings: duly's deadlines, unless the URL sets them."""
    refuse_unescaped(url)
    try:
        return {**DEADLINES, **conninfo.conninfo_to_dict(url), "autocommit": True}
    except psycopg.Error:
        # From nothing: libpq's own message quotes the part it could not read, and that may be the
        # password.
        raise UsageError(
            "this PostgreSQL URL cannot be read: write postgresql://user:password@host:5432/name"
        ) from None


def refuse_unescaped(url: str) -> None:
    """Refuse a URL of which libpq would take a part of the password for the host.

    It reads the password up to the first ``@`` or ``/`` and names the host in its messages.
    """
    user, at, after = url.partition("://")[2].partition("@")
    if ("/" in user and "?" not in user and at) or "@" in after.partition("?")[0]:
        raise UsageError(
            "this PostgreSQL URL has more than one reading: in a user name or password write @ as "
            "%40 and / as %2F"
        )


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The settings of a server that decide whether duly may use it, and how."""

    version: int
    standby: bool
    fsync: bool
    synchronous_commit: bool
    process: int

    def is_behind_pooler(self, backend_pid: int) -> bool:
        """Whether the server process that answered is not the one that the connection began with.

        Behind a pooler the next statement may meet another process, so nothing may be kept on
        the server between two transactions: no prepared statements, no session settings.
        """
        return self.process != backend_pid


async def inspect_server(session: Session) -> ServerInfo:
    """Read them from the server."""
    [row] = await session.rows(SERVER_CHECK)
    return ServerInfo(**row)


def refuse_unsafe(server: ServerInfo, durability: Durability) -> None:
    """Raise where a COMMIT that was answered could be lost."""
    if server.version < OLDEST:
        raise UnsafeStore(
            f"PostgreSQL {server.version // 10000} is too old: duly needs 14 or newer"
        )
    if server.standby:
        raise UnsafeStore(
            "this PostgreSQL server is a standby and takes no writes: use the primary's address"
        )
    if durability == "any":
        return
    for setting, is_on in (
        ("fsync", server.fsync),
        ("synchronous_commit", server.synchronous_commit),
    ):
        if not is_on:
            raise UnsafeStore(
                f"this PostgreSQL server runs with {setting} = off, so a power cut can lose what "
                f'was acknowledged: switch it on, or pass durability="any" to accept the loss'
            )
