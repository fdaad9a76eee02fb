"""A test that takes a ``case`` gets a ``place``; one that takes a ``way``, a ``joined_place``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.outbox.offices import EVERY
from tests.stores.join.conftest import place as joined_place  # noqa: F401
from tests.stores.join.conftest import settled_postgres, settled_sqlite  # noqa: F401
from tests.worker.conftest import named, working_postgres, working_sqlite  # noqa: F401
from tests.worker.conftest import place as worked_place  # noqa: F401
from tests.worker.records import Records

if TYPE_CHECKING:
    from tests.worker.subjects import Case, DatabaseOf

CLEAR = "DELETE FROM duly_outbox; DELETE FROM duly_counters"


@pytest.fixture(params=EVERY, ids=named)
def case(request: pytest.FixtureRequest) -> Case:
    """Every store in both colours."""
    found: Case = request.param
    return found


@pytest.fixture
def place(worked_place: DatabaseOf) -> DatabaseOf:  # noqa: F811
    """A database of the kind that the test's case wants, without a message in it."""
    if worked_place.looked_at.startswith("postgresql:"):  # the others are new
        Records(worked_place.looked_at).run(CLEAR)
    return worked_place
