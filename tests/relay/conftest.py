"""A test that takes a ``case`` gets a ``place``, as the outbox's own tests do."""

from tests.outbox.conftest import (  # noqa: F401
    case,
    place,
    worked_place,
    working_postgres,
    working_sqlite,
)
