"""Which databases belong to tests. The test kit writes to no other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from duly.app.output import without_passwords
from duly.core.errors import UsageError
from duly.core.extras import needs

if TYPE_CHECKING:
    from duly.app.duly import Duly

# Made for a test in this process, or marked with `test_database`.
TEST_DATABASES: set[tuple[str, ...]] = set()


class NotATestDatabase(UsageError):
    """The application is on a database that no test may write to."""


def test_database(url: str) -> str:
    """Say that tests may write to the database at this address; returns the address.

    The rows that tests write there stay: nothing is emptied or dropped.
    """
    TEST_DATABASES.add(database_identity(url))
    return url


test_database.__test__ = False  # type: ignore[attr-defined]  # or pytest takes it for a test


def database_identity(url: str) -> tuple[str, ...]:
    """Which database an address leads to, however it is written."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return "sqlite", str(Path(unquote(parts.path.removeprefix("/"))).resolve())
    if parts.scheme in ("postgresql", "postgres"):
        with needs("postgres", "psycopg"):
            from psycopg.conninfo import conninfo_to_dict
        given = conninfo_to_dict(url)
        parts_of = [str(given.get(name) or usual) for name, usual in LIBPQ_DEFAULTS.items()]
        return "postgresql", *parts_of
    return (url,)


# The defaults of libpq, near enough to tell two databases apart.
LIBPQ_DEFAULTS = {"host": "", "port": "5432", "dbname": ""}


def is_for_tests(url: str) -> bool:
    """True where tests may write; ``memory:`` ends with the process."""
    return url == "memory:" or database_identity(url) in TEST_DATABASES


def refuse_foreign(app: Duly) -> None:
    """Refuse an application whose database is not a test's."""
    url = app.store.url
    if is_for_tests(url):
        return
    raise NotATestDatabase(
        f"this app is on {without_passwords(url)}, which no test may write to: take the app from "
        "the fixture duly_app, or from testing.isolated(…), make it with Duly(duly_url), or say "
        "testing.test_database(url) if that is a database for tests"
    )
