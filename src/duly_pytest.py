"""duly's fixtures for pytest.

A module of its own beside the package: pytest imports the plugins of everything that is installed,
and a run that has nothing to do with duly must not wait for duly.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from duly import Duly
    from duly.stores.join.protocols import BeginsTransactions
    from duly.testing import Databases, Deliver, HandClock, RunJobs, RunRelay
    from duly.types import Message

VARIABLE = "DULY_TEST_URL"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which application, and where its databases are made."""
    parser.addini("duly_app", "the application under test, as in shop:app", default="")
    parser.getgroup("duly").addoption(
        "--duly-url",
        metavar="URL",
        default=None,
        help=(
            "a PostgreSQL server, postgresql://user@host/postgres, in which each test of duly gets "
            f"a database of its own (default: {VARIABLE}, or else a SQLite file for each test)"
        ),
    )


def plainly(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function; a `UsageError` fails the test without frames of duly."""
    from duly.errors import UsageError

    __tracebackhide__ = True
    try:
        return call(*arguments, **options)
    except UsageError as problem:
        reason = str(problem)
    # Outside of the except: pytest would show the cause as well, which is the same sentence.
    pytest.fail(reason, pytrace=False)


@pytest.fixture
def duly_app_path(pytestconfig: pytest.Config) -> str | None:
    """The name of the application under test, ``shop:app``; override it for another."""
    name: str = pytestconfig.getini("duly_app")
    return name or None


@pytest.fixture(scope="session")
def duly_databases(pytestconfig: pytest.Config) -> Iterator[Databases]:
    """Makes a database for each test."""
    from duly.testing import Databases

    server = pytestconfig.getoption("--duly-url") or os.environ.get(VARIABLE) or None
    databases: Databases = plainly(Databases, server)
    yield databases
    databases.close()


@pytest.fixture
def duly_url(duly_databases: Databases, tmp_path: Path) -> Iterator[str]:
    """The address of a fresh database for this test, for ``Duly(duly_url)`` or your ORM."""
    from duly.testing.applications import mute_worker_warnings

    # An app that a fixture makes on this database is closed before this fixture ends.
    with mute_worker_warnings(), duly_databases.fresh(tmp_path) as url:
        yield url


@pytest.fixture
def duly_begin() -> BeginsTransactions | None:
    """Override it for an app with ``begin=``: return a sessionmaker on ``duly_url``."""
    return None


@pytest.fixture
def duly_clock() -> HandClock:
    """The clock of ``duly_app``, moved by hand."""
    from duly.testing import HandClock

    return HandClock()


@pytest.fixture
def clock(duly_clock: HandClock) -> HandClock:
    """The same by a shorter name: ``clock.advance(hours=2)``."""
    return duly_clock


@pytest.fixture
def duly_app(
    pytestconfig: pytest.Config,
    duly_app_path: str | None,
    duly_url: str,
    duly_begin: BeginsTransactions | None,
    duly_clock: HandClock,
) -> Iterator[Duly]:
    """Your application on the fresh database of this test, and on its own again afterwards."""
    from duly.testing import application, bound

    app = plainly(application, duly_app_path, pytestconfig.rootpath)
    binding = bound(app, duly_url, clock=duly_clock, begin=duly_begin)
    yield plainly(binding.__enter__)
    binding.__exit__(None, None, None)


@pytest.fixture
def deliver(duly_app: Duly) -> Iterator[Deliver]:
    """Genuine deliveries to the app: ``deliver("stripe", {…}, times=2)``; ``await deliver.aio``."""
    from duly.testing import Deliver

    with Deliver(duly_app) as delivering:
        yield delivering


@pytest.fixture
def run_jobs(duly_app: Duly, duly_clock: HandClock) -> RunJobs:
    """Run the jobs that are due, and return what ran; ``await run_jobs.aio()``."""
    from duly.testing import RunJobs

    return RunJobs(duly_app, duly_clock)


@pytest.fixture
def run_relay(duly_app: Duly, duly_clock: HandClock) -> RunRelay:
    """Record the messages that are due instead of sending them; ``await run_relay.aio()``."""
    from duly.testing import RunRelay

    return RunRelay(duly_app, duly_clock)


@pytest.fixture
def sent_messages(run_relay: RunRelay) -> list[Message]:
    """Every message that ``run_relay`` recorded in this test."""
    return run_relay.sent
