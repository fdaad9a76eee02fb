"""The URL of a database in duly's form, from an ORM's connection parameters.

Of these, libpq's own are kept; the others are the driver's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from duly.core.errors import UsageError
from duly.core.extras import needs

if TYPE_CHECKING:
    from collections.abc import Mapping

# asyncpg's parameter names, and libpq's for the same.
ASYNCPG = {"database": "dbname", "ssl": "sslmode"}


def sqlite_address(database: object) -> str:
    """The address of a SQLite file."""
    path = "" if database is None else str(database)
    if not path or path == ":memory:" or path.startswith("file:"):
        raise UsageError(
            "begin= leads to an in-memory database or a SQLite URI, which duly's own connection "
            "cannot share: use a plain file, such as sqlite:///shop.db"
        )
    return f"sqlite:///{quote(path)}"


def postgres_address(parameters: Mapping[str, Any]) -> str:
    """The address of a PostgreSQL database, by the parameters that its driver is given."""
    with needs("postgres", "psycopg and psycopg_pool"):
        from psycopg.pq import Conninfo
    # duly's own connections have their own name in pg_stat_activity.
    known = {option.keyword.decode() for option in Conninfo.get_defaults()} - {"application_name"}
    named = {ASYNCPG.get(name, name): text_of(value) for name, value in parameters.items()}
    given = {name: value for name, value in named.items() if name in known and value}
    account = quote(given.pop("user", ""), safe="")
    if "password" in given and account:
        account += f":{quote(given.pop('password'), safe='')}"
    name = quote(given.pop("dbname", ""), safe="")
    # Hosts go where sockets, several of them, and IPv6 need no quoting of their own.
    rest = urlencode(given, quote_via=quote, safe="")
    return f"postgresql://{account}{'@' if account else ''}/{name}{'?' if rest else ''}{rest}"


def text_of(value: object) -> str:
    """A parameter as libpq spells it; several hosts and ports are joined."""
    if isinstance(value, list | tuple):
        return ",".join("" if one is None else str(one) for one in value)
    return "" if value is None else str(value)
