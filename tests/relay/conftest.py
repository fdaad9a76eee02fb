"""A test that takes a ``case`` gets a ``place``, as the outbox's own tests do."""

from tests.outbox.conftest import case, place  # noqa: F401
from tests.worker.conftest import place as worked_place  # noqa: F401
from tests.worker.conftest import working_postgres, working_sqlite  # noqa: F401
