"""What every test may ask for: real databases, a scope of its own, and a clock cranked by hand."""

from __future__ import annotations

import asyncio
import inspect
import os
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

import duly
from tests.support.promises import promises_of
from tests.support.servers import (
    Missing,
    create_database,
    database,
    drop_database,
    pgbouncer,
    template_database,
    through,
)
from tests.support.servers import postgres as running_postgres
from tests.support.sizes import in_this_form, mark_wide_parameters
from tests.webhooks.conftest import pytest_terminal_summary  # noqa: F401  # pytest finds it here

if TYPE_CHECKING:
    from collections.abc import Iterator


HERE = Path(__file__).parent
# A property holds or does not, however long an example takes: hypothesis would bound each at 0.2 s,
# and a busy machine would break it.
settings.register_profile("duly", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("duly")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is ``async def`` in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted}))
    return True


def elsewhere(item: pytest.Item) -> bool:
    """Whether the newest interpreter runs a test, where two share the work: see everywhere.py.

    That is the form of a promise for the store memory:, unless it is slow.
    """
    called = getattr(item, "callspec", None)
    in_memory = called is not None and "memory" in called.id.split("-")
    return in_memory and item.get_closest_marker("slow") is None


@pytest.hookimpl(tryfirst=True)  # before pytest looks at -m
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what another form, interpreter or pytest runs: see tests/support/everywhere.py."""
    for item in items:
        promises_of(item)  # a name that is unknown ends the run here
    mark_wide_parameters(items)
    items[:] = [item for item in items if in_this_form(item)]
    for item in items:
        if item.get_closest_marker("long") is not None:
            item.add_marker(pytest.mark.timeout(0))
    part = os.environ.get("DULY_TEST_PART")
    if part is not None:
        items[:] = [item for item in items if elsewhere(item) == (part == "memory")]
    items[:] = without_mixed_proofs(items)


def without_mixed_proofs(items: list[pytest.Item]) -> list[pytest.Item]:
    """Leave the proofs out where there are other tests: they need a pytest of their own.

    A proof forks this process. In one that has tried Django and everything else, it would prove
    another application. `make test` starts a second pytest for `tests/prove`.
    """
    others = [item for item in items if HERE / "prove" not in item.path.parents]
    return others or items


def migrated(url: str) -> None:
    """Fill the template database with duly's tables."""
    duly.store(url).migrate()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a real server's maintenance database."""
    with running_postgres() as url:
        yield url


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str) -> Iterator[str]:
    """A database with duly's tables, to be cloned."""
    with template_database(postgres_server, migrated) as name:
        yield name


@pytest.fixture(scope="session")
def postgres_url(postgres_server: str, postgres_template: str) -> Iterator[str]:
    """One migrated database for the whole test process; tests keep apart by their scope."""
    with database(postgres_server, postgres_template) as url:
        yield url


@pytest.fixture
def own_postgres_url(postgres_server: str, postgres_template: str) -> Iterator[str]:
    """A migrated database for one test alone, for tests that count or break things."""
    url = create_database(postgres_server, template=postgres_template)
    yield url
    drop_database(postgres_server, url)


@pytest.fixture
def empty_postgres_url(postgres_server: str) -> Iterator[str]:
    """A database without duly's tables, for one test alone."""
    url = create_database(postgres_server)
    yield url
    drop_database(postgres_server, url)


@pytest.fixture(scope="session")
def bouncer_address(postgres_server: str) -> Iterator[str]:
    """PgBouncer in transaction mode before the same server."""
    with pgbouncer(postgres_server) as found:
        if isinstance(found, Missing):
            pytest.skip(str(found))
        yield found


@pytest.fixture
def bouncer_url(bouncer_address: str, postgres_url: str) -> str:
    """The process's database, by way of PgBouncer."""
    return through(bouncer_address, postgres_url)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A SQLite file for one test alone, not created yet."""
    return f"sqlite:///{tmp_path / 'duly.db'}"


@pytest.fixture
def scope() -> str:
    """A scope that no other test uses."""
    return f"test-{uuid.uuid4().hex}"


class HandClock:
    """Time that moves only when told."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment

    def advance(self, by: timedelta) -> None:
        """Move on."""
        self.moment += by


@pytest.fixture
def clock() -> HandClock:
    """A clock cranked by hand."""
    return HandClock()
