"""What people pass instead of a connection, and what to pass: one sentence for each.

A table of names and no more, so that nothing is imported to refuse it. The object itself never
appears in a message: an address may hold a password.
"""

from __future__ import annotations

import inspect

from duly.stores.join.drivers import type_names

JOINABLE = (
    "pass a duly.store(...), or an open sqlite3, aiosqlite, psycopg, asyncpg, SQLAlchemy 2 or "
    "Django connection"
)
AWAIT = "await it first, and pass what it gives"
STORE = "a URL is not a connection: pass duly.store(url), or the connection whose transaction it is"
CURSOR = "a cursor is not a connection: pass its connection"
TRANSACTION = "a transaction object is not a connection: pass the connection it was begun on"
POOL = "a pool holds many connections: take one, `with pool.connection() as connection:`, pass that"
ASYNC_POOL = (
    "a pool holds many connections: take one, `async with pool.connection() as connection:`, and "
    "pass that"
)
ASYNCPG_POOL = (
    "a pool holds many connections: take one, `async with pool.acquire() as connection:`, and "
    "pass that inside `async with connection.transaction():`"
)
MANAGER = "enter it first, `with ... as connection:`, and pass what it gives"
ASYNC_MANAGER = "enter it first, `async with ... as connection:`, and pass what it gives"
ENGINE = "an engine opens connections: pass one, `with engine.begin() as connection:`"
ASYNC_ENGINE = "an engine opens connections: pass one, `async with engine.begin() as connection:`"
MAKER = "a sessionmaker makes sessions: pass one, `with maker.begin() as session:`"
ASYNC_MAKER = "a sessionmaker makes sessions: pass one, `async with maker.begin() as session:`"
FLASK = "Flask-SQLAlchemy's own object is not a session: pass db.session"
ALIASES = 'django.db.connections holds many: pass connections["default"]'
PSYCOPG2 = "psycopg2 is not supported: use psycopg 3 (pip install 'psycopg[binary]')"
DATABASE = "this database is not supported: duly joins PostgreSQL and SQLite"

REMEDIES: dict[str, str] = {
    "builtins.str": STORE,
    "builtins.bytes": STORE,
    "pathlib.PurePath": 'a path is not a connection: pass duly.store("sqlite:///...")',
    "sqlalchemy.URL": STORE,
    "sqlite3.Cursor": CURSOR,
    "aiosqlite.Cursor": CURSOR,
    "psycopg.BaseCursor": CURSOR,
    "sqlalchemy.CursorResult": CURSOR,
    "django.CursorWrapper": "a cursor is not a connection: pass django.db.connection",
    "psycopg.BaseTransaction": TRANSACTION,
    "asyncpg.Transaction": TRANSACTION,
    "sqlalchemy.Transaction": TRANSACTION,
    "sqlalchemy.AsyncTransaction": TRANSACTION,
    "sqlalchemy.SessionTransaction": "pass the session that this transaction belongs to",
    "sqlalchemy.AsyncSessionTransaction": "pass the session that this transaction belongs to",
    "psycopg_pool.ConnectionPool": POOL,
    "psycopg_pool.AsyncConnectionPool": ASYNC_POOL,
    "asyncpg.Pool": ASYNCPG_POOL,
    "contextlib._GeneratorContextManager": MANAGER,
    "contextlib._AsyncGeneratorContextManager": ASYNC_MANAGER,
    "sqlalchemy.Engine": ENGINE,
    "sqlalchemy.AsyncEngine": ASYNC_ENGINE,
    "sqlalchemy.sessionmaker": MAKER,
    "sqlalchemy.async_sessionmaker": ASYNC_MAKER,
    "flask_sqlalchemy.SQLAlchemy": FLASK,
    "django.ConnectionHandler": ALIASES,
    "psycopg2.connection": PSYCOPG2,
    "pymysql.Connection": DATABASE,
    "MySQLdb.Connection": DATABASE,
    "mysql.MySQLConnectionAbstract": DATABASE,
}


def refusal(target: object) -> str:
    """Why this object cannot be joined, and what to pass instead."""
    known = (REMEDIES[name] for name in type_names(target) if name in REMEDIES)
    otherwise = AWAIT if inspect.isawaitable(target) else JOINABLE
    if type(target).__name__.endswith("Store"):
        otherwise = "leave it out, or pass the connection whose transaction it is"
    return f"{describe(target)} cannot be joined by duly: {next(known, otherwise)}"


def describe(target: object) -> str:
    """A type as its user would import it."""
    kind = type(target)
    package = kind.__module__.split(".")[0]
    name = kind.__qualname__ if package == "builtins" else f"{package}.{kind.__qualname__}"
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
