"""Django's test databases: delete duly's rows and close its connections with Django's own.

After each ``TransactionTestCase`` Django flushes the tables of its models, and at the end of a run
it drops the database. It has no signal for the latter, and knows neither duly's tables nor duly's
connections, so two methods of its connection are extended while its tests run.
"""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from django.db import connections, transaction
from django.db.backends.base.creation import TEST_DATABASE_PREFIX

from duly.core.onestep import finish
from duly.stores.join.recognise import join
from duly.stores.sql.migrations import schema_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.core.defaults import Names
    from duly.core.session import Session
    from duly.stores.store import Store

# Every table with rows of work; duly_meta stays.
TABLES = (
    *("claims", "counters", "deliveries", "effects", "events", "history", "jobs", "outbox"),
    *("schedules", "versions", "workers"),
)
# The apps to close before a test database is dropped, by the alias of Django's connection.
APPS: dict[str, WeakSet[ClosableApp]] = {}


class ClosableApp(Protocol):
    """What these tests need of an application."""

    store: Store

    async def aclose(self) -> None:
        """Close its connections, those of event loops that have ended included."""

    def close(self) -> None:
        """Write the counters, and close the store."""


def tests_are_running() -> bool:
    """Whether Django's test environment is set up; costs nothing where it was never imported."""
    utils = sys.modules.get("django.test.utils")
    return utils is not None and hasattr(utils._TestState, "saved_data")


def is_test_database(connection: Any) -> bool:
    """Whether Django's test runner has put its test database in the place of the real one.

    Django keeps no record of that. By then the name in the settings is that of the test database,
    which is ``TEST: NAME``, or begins with ``test_``; parallel runs append a suffix.
    """
    given = connection.settings_dict["TEST"]
    if given["MIRROR"]:
        return is_test_database(connections[given["MIRROR"]])
    name, expected = str(connection.settings_dict["NAME"]), given["NAME"]
    if not tests_are_running():
        return False
    if not expected:
        return name.startswith(TEST_DATABASE_PREFIX)
    if connection.vendor != "sqlite":
        return re.fullmatch(rf"{re.escape(expected)}(_\w+)?", name) is not None
    path = Path(expected)
    root = re.escape(str(path.with_suffix("")))
    return re.fullmatch(rf"{root}(_\w+)?{re.escape(path.suffix)}", str(Path(name))) is not None


def clean_up_with_django(connection: Any, app: ClosableApp) -> None:
    """Empty duly's tables with Django's, and close an app before its test database is dropped."""
    if not is_test_database(connection):
        return
    alias = connection.alias
    APPS.setdefault(alias, WeakSet()).add(app)
    wrap_method(connection.ops, "execute_sql_flush", after=lambda: empty_tables(alias))
    wrap_method(connection.creation, "destroy_test_db", before=lambda: close_apps(alias))


def wrap_method(
    owner: Any,
    name: str,
    *,
    before: Callable[[], None] = lambda: None,
    after: Callable[[], None] = lambda: None,
) -> None:
    """Wrap a method of one object with a call before or after it; do nothing if it is wrapped."""
    method = getattr(owner, name)
    if hasattr(method, "__wrapped__"):
        return

    @wraps(method)
    def extended(*arguments: Any, **options: Any) -> Any:
        before()
        done = method(*arguments, **options)
        after()
        return done

    setattr(owner, name, extended)


def empty_tables(alias: str) -> None:
    """Delete the rows of every app on a test database."""
    for names in {app.store.names for app in APPS.get(alias, ())}:
        with transaction.atomic(using=alias):
            session = join(connections[alias], names, None, mode="sync", verb="begin")
            finish(delete_rows(session, names))


async def delete_rows(session: Session, names: Names) -> None:
    """Delete the rows of one installation, if there is one."""
    await session.begin(None)
    if (await schema_version(session)).migrated_to:
        for table in TABLES:
            await session.execute(f"DELETE FROM {names.table(table)}", {})  # noqa: S608


def close_apps(alias: str) -> None:
    """Close every app on a test database."""
    for app in list(APPS.pop(alias, ())):
        thread = threading.Thread(target=close_app, args=[app], name="duly-close")
        thread.start()
        thread.join()


def close_app(app: ClosableApp) -> None:
    """Close an app, and the connections that ended event loops left open."""
    asyncio.run(app.aclose())
    app.close()
