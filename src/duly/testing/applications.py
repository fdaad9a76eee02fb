"""The user's application on the database of a test, and back on its own afterwards."""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from duly.app.duly import Duly
from duly.app.loading import load_app
from duly.app.output import without_passwords
from duly.core.errors import UsageError
from duly.core.validation import checked_clock
from duly.outbox.relay_liveness import NO_RELAY
from duly.receiver import metrics
from duly.stores.orm.begin import begin_of
from duly.testing.databases import store_at
from duly.testing.guard import NotATestDatabase, database_identity, is_for_tests

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator

    from duly.core.clock import Clock
    from duly.stores.join.protocols import BeginsTransactions
    from duly.stores.store import Store

WHICH = (
    'which application? Write duly_app = "shop:app" under [tool.pytest.ini_options] in '
    "pyproject.toml, or override the fixture duly_app_path or duly_app"
)


def application(named: str | Duly | None, root: Path | None = None) -> Duly:
    """An application by its name, ``shop:app``; looked for in ``root`` first."""
    if isinstance(named, Duly):
        return named
    if not isinstance(named, str) or not named:
        raise UsageError(WHICH)
    if root is not None:
        if str(root) not in sys.path:
            sys.path.insert(0, str(root))
        file, colon, attribute = named.rpartition(":")
        if file.endswith(".py"):
            return app_from_file(root / file, f"{root / file}{colon}{attribute}")
    return load_app(named)


def app_from_file(path: Path, named: str) -> Duly:
    """An application by its file, which may have been imported for an earlier test."""
    known = sys.modules.get(path.stem)
    if (
        known is not None
        and Path(getattr(known, "__file__", None) or "").resolve() == path.resolve()
    ):
        return load_app(f"{path.stem}:{named.rpartition(':')[2]}")
    return load_app(named)


@contextmanager
def bound(
    app: Duly, url: str, *, clock: Clock | None = None, begin: BeginsTransactions | None = None
) -> Iterator[Duly]:
    """The application on the database of a test until the end of the block, by its clock.

    Args:
        app: the application.
        url: the database, as `Databases` makes one.
        clock: what time it is there; the machine's unless given.
        begin: a sessionmaker, or ``duly.django.database(…)``, that leads to that database, for an
            app whose handlers work in your ORM; its own unless given.
    """
    checked_clock(clock)
    refuse_elsewhere(url, f"the tests of this app would write to {without_passwords(url)}")
    refuse_begin(app, begin, url)
    opened = store_at(url, app.store.names, clock)
    try:
        opened.migrate()
        # Around the binding: the app looks for workers when it leaves the store, at the latest.
        with mute_worker_warnings(), app.bound_to(opened, begin=begin):
            yield app
    finally:
        close_store(opened)


@contextmanager
def mute_worker_warnings() -> Iterator[None]:
    """Do not say that no worker or relay is alive: in a test they run when they are called."""

    def telling(record: logging.LogRecord) -> bool:
        return record.msg not in (metrics.NO_WORKER, NO_RELAY)

    metrics.logger.addFilter(telling)
    try:
        yield
    finally:
        metrics.logger.removeFilter(telling)


def close_store(store: Store) -> None:
    """Close a store, and what event loops that rest or have ended have open of it.

    A loop that runs just now keeps its own until it ends: this function is sync and cannot await.
    """
    if store.capabilities.concurrent_writers:
        thread = threading.Thread(target=close_loops, args=(store,), name="duly-close")
        thread.start()
        thread.join()
    store.close()


def close_loops(store: Store) -> None:
    """Close the pools of all event loops but those that run; on a thread that runs none itself."""
    open_pools: dict[asyncio.AbstractEventLoop, object] = getattr(store.async_runner, "_pools", {})
    for loop in list(open_pools):
        if not loop.is_running() and not loop.is_closed():
            loop.run_until_complete(store.aclose_loop())
    asyncio.run(store.aclose_loop())  # forgets those that have ended


def refuse_elsewhere(url: str, consequence: str) -> None:
    """Refuse a database that is not a test's."""
    if not is_for_tests(url):
        raise NotATestDatabase(
            f"{consequence}, and that is not marked as a database for tests: use the one of the "
            "fixture duly_url, or say testing.test_database(url)"
        )


def refuse_begin(app: Duly, begin: object, url: str) -> None:
    """Refuse an ORM that leads elsewhere: the handlers would work on its database."""
    given = app.process.given_begin if begin is None else begin
    if given is None:
        return
    found = begin_of(given, app.store.names, app.store.clock)
    own = app.process.begin
    if own is None or found.mode != own.mode:
        raise UsageError(
            f"duly_begin opens {found.mode} transactions, and this app was made "
            f"{'without begin=' if own is None else f'for {own.mode} ones'}: its "
            "handlers could not work in them"
        )
    if database_identity(found.url()) != database_identity(url):
        raise NotATestDatabase(
            "the handlers of this app work in the transactions of begin=, which leads to "
            f"{without_passwords(found.url())}, and not to the database of this test, "
            f"{without_passwords(url)}. Override the fixture duly_begin: return a sessionmaker on "
            "duly_url; or let duly_url be the database that your ORM has for tests"
        )
