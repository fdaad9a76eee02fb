"""``duly.store(url)``: the store for an address."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from duly.core.defaults import Names, names
from duly.core.errors import UsageError
from duly.core.extras import needs
from duly.core.validation import checked_clock, checked_count

if TYPE_CHECKING:
    from duly.core.clock import Clock
    from duly.stores.store import Store

FORMS = "sqlite:///shop.db, sqlite:////var/lib/shop.db, postgresql://user@host/name or memory:"
MOST_CONNECTIONS = 1000


def store(
    url: str,
    *,
    prefix: str | None = None,
    schema: str | None = None,
    clock: Clock | None = None,
    durability: str = "required",
    connections: int = 10,
) -> Store:
    """Name a store; it connects at its first use, or at once by ``open()`` or ``with``.

    SQLite files and their tables are made where they are missing; PostgreSQL tables by
    ``duly migrate``. A PostgreSQL server that could lose an acknowledged commit is refused unless
    ``durability="any"``. ``connections`` bounds each of duly's own pools on PostgreSQL.
    """
    if not isinstance(url, str):
        raise UsageError(f"a store's address is a string such as {FORMS}")
    if durability not in ("required", "any"):
        raise UsageError('durability must be "required" or "any"')
    checked_count("connections", connections, most=MOST_CONNECTIONS)
    where, trusted_clock = names(prefix, schema), checked_clock(clock)
    match urlsplit_or_refuse(url):
        case "memory":
            found = open_memory(url, where, trusted_clock)
        case "sqlite":
            found = open_sqlite(url, where, trusted_clock)
        case "postgresql" | "postgres":
            found = open_postgres(url, where, trusted_clock, durability, connections)
        case dressed if dressed.startswith(("postgresql+", "sqlite+")):
            raise UsageError(
                f"this is SQLAlchemy's form of an address: drop {dressed[dressed.find('+') :]}"
            )
        case other:
            raise UsageError(f"no store for addresses that start with {other!r:.40}: use {FORMS}")
    found.strict = durability == "required" and found.capabilities.durable
    return found


def urlsplit_or_refuse(url: str) -> str:
    """The scheme of an address. The address itself may hold a password and is never printed."""
    try:
        url.encode()
        return urlsplit(url).scheme
    except ValueError:  # raised again from nothing: its own message may quote the address
        raise UsageError(f"this store's address cannot be read: use {FORMS}") from None


def open_memory(url: str, where: Names, clock: Clock | None) -> Store:
    """A temporary store, deleted at the end of the process."""
    from duly.stores.sqlite.store import MemoryStore

    if url != "memory:":
        raise UsageError('the address of a temporary store is exactly "memory:"')
    return MemoryStore(where, clock)


def open_sqlite(url: str, where: Names, clock: Clock | None) -> Store:
    """A database file. Three slashes begin a relative path, four an absolute one."""
    from duly.stores.sqlite.store import SqliteStore

    parts = urlsplit(url)
    path = unquote(parts.path.removeprefix("/"))
    if parts.netloc or parts.query or parts.fragment or not path or "\0" in path:
        raise UsageError(
            "write sqlite:///shop.db for a relative and sqlite:////tmp/shop.db for an absolute path"
        )
    if path == ":memory:":
        raise UsageError('an in-memory SQLite has one connection only: use "memory:"')
    return SqliteStore(url, Path(path), where, clock)


def open_postgres(
    url: str, where: Names, clock: Clock | None, durability: str, connections: int
) -> Store:
    """A PostgreSQL database through psycopg, from the extra ``postgres``."""
    with needs("postgres", "psycopg and psycopg_pool"):
        from duly.stores.postgres.store import PostgresStore
    return PostgresStore(
        url,
        where,
        clock,
        durability="any" if durability == "any" else "required",
        connections=connections,
    )
