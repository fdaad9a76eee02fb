"""The suite's parameters: every subject, over a real database of the right kind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.stores.join.sqlite_handles import path_of
from tests.support.servers import database, through
from tests.support.sizes import mostly_wide
from tests.worker.clocks import Seconds
from tests.worker.records import WORKINGS, Records, settled_file
from tests.worker.subjects import BOUNCED, WOVEN, Case, DatabaseOf, cases

if TYPE_CHECKING:
    from collections.abc import Iterator


NAMES = ("case", "woven", "with_tx", "leased", "bounced", "cancelled")


def named(case: Case) -> str:
    return case.name


@pytest.fixture
def seconds() -> Seconds:
    """The clock of everything in the slots."""
    return Seconds()


@pytest.fixture(params=mostly_wide(cases(), shown=WOVEN.__contains__), ids=named)
def case(request: pytest.FixtureRequest) -> Case:
    """Every store, colour and kind of handler."""
    found: Case = request.param
    return found


@pytest.fixture(params=WOVEN, ids=named)
def woven(request: pytest.FixtureRequest) -> Case:
    """Every pair of a store, a colour and a kind."""
    found: Case = request.param
    return found


@pytest.fixture(params=cases(ways=["tx"]), ids=named)
def with_tx(request: pytest.FixtureRequest) -> Case:
    """Handlers in a transaction, on every store and in both colours."""
    found: Case = request.param
    return found


@pytest.fixture(params=cases(ways=["leased"]), ids=named)
def leased(request: pytest.FixtureRequest) -> Case:
    """Handlers without a transaction, on every store and in both colours."""
    found: Case = request.param
    return found


@pytest.fixture(params=BOUNCED, ids=named)
def bounced(request: pytest.FixtureRequest) -> Case:
    """By way of PgBouncer."""
    found: Case = request.param
    return found


@pytest.fixture(scope="session")
def working_sqlite(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A SQLite file with duly's tables and the user's."""
    return settled_file(tmp_path_factory.mktemp("working") / "duly.db")


@pytest.fixture(scope="session")
def working_postgres(postgres_server: str, postgres_template: str) -> Iterator[str]:
    """A database for these tests alone: a worker looks after every job that it finds."""
    with database(postgres_server, postgres_template) as url:
        Records(url).run(WORKINGS)
        yield url


@pytest.fixture
def place(request: pytest.FixtureRequest) -> DatabaseOf:
    """A database of the kind that the test's subject wants, without a job in it."""
    [name] = set(NAMES) & set(request.fixturenames)
    wanted: Case = request.getfixturevalue(name)
    if wanted.kind == "memory":
        return DatabaseOf("memory:", "")
    if wanted.kind == "sqlite":
        url: str = request.getfixturevalue("sqlite_url")
        Path(path_of(url)).write_bytes(request.getfixturevalue("working_sqlite"))
        return DatabaseOf(url, url)
    direct: str = request.getfixturevalue("working_postgres")
    with Records(direct).looking() as records:
        records.clear()
    if wanted.kind == "bouncer":
        return DatabaseOf(through(request.getfixturevalue("bouncer_address"), direct), direct)
    return DatabaseOf(direct, direct)
