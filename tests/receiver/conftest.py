"""The suite's parameters: every subject, over a real database of the right kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.receiver.records import EFFECTS, Records, settled_file
from tests.receiver.subjects import BOUNCED, WOVEN, Case, DatabaseOf, cases
from tests.stores.join.sqlite_handles import path_of
from tests.support.sizes import mostly_wide

NAMES = ("case", "woven", "stored", "deferred", "inline", "durable_inline")
INSIDE = [case for case in WOVEN if case.way != "deferred"]


def named(case: Case) -> str:
    return case.name


@pytest.fixture(params=mostly_wide([*cases(), *BOUNCED], shown=WOVEN.__contains__), ids=named)
def case(request: pytest.FixtureRequest) -> Case:
    """Every store, server and way to work."""
    found: Case = request.param
    return found


@pytest.fixture(params=WOVEN, ids=named)
def woven(request: pytest.FixtureRequest) -> Case:
    """Every pair of a store, a server and a way."""
    found: Case = request.param
    return found


@pytest.fixture(params=[case for case in WOVEN if case.way == "deferred"], ids=named)
def stored(request: pytest.FixtureRequest) -> Case:
    """Every store once, for what only the store could do in another way."""
    found: Case = request.param
    return found


@pytest.fixture(params=cases(ways=["deferred"]), ids=named)
def deferred(request: pytest.FixtureRequest) -> Case:
    """Every store and server, for what does not depend on when the work is done."""
    found: Case = request.param
    return found


@pytest.fixture(params=INSIDE, ids=named)
def inline(request: pytest.FixtureRequest) -> Case:
    """Those that work inside the accepting transaction."""
    found: Case = request.param
    return found


@pytest.fixture(params=[case for case in INSIDE if case.kind != "memory"], ids=named)
def durable_inline(request: pytest.FixtureRequest) -> Case:
    """The same over databases that a second application can share."""
    found: Case = request.param
    return found


@pytest.fixture(scope="session")
def settled_sqlite(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A SQLite file with duly's tables and the user's."""
    return settled_file(tmp_path_factory.mktemp("settled") / "duly.db")


@pytest.fixture(scope="session")
def settled_postgres(postgres_url: str) -> str:
    """The process's database; tests keep apart by the name of their source."""
    Records(postgres_url).run(EFFECTS)
    return postgres_url


@pytest.fixture
def place(request: pytest.FixtureRequest) -> DatabaseOf:
    """A database of the kind that the test's subject wants."""
    [name] = set(NAMES) & set(request.fixturenames)
    wanted: Case = request.getfixturevalue(name)
    if wanted.kind == "memory":
        return DatabaseOf("memory:", "")
    if wanted.kind == "sqlite":
        url: str = request.getfixturevalue("sqlite_url")
        Path(path_of(url)).write_bytes(request.getfixturevalue("settled_sqlite"))
        return DatabaseOf(url, url)
    direct: str = request.getfixturevalue("settled_postgres")
    if wanted.kind == "bouncer":
        return DatabaseOf(request.getfixturevalue("bouncer_url"), direct)
    return DatabaseOf(direct, direct)
