"""The database of Django's test runner, for an app with ``begin=duly.django.database(…)``."""

from __future__ import annotations

from duly.app.output import without_passwords
from duly.core.defaults import WAIT, names
from duly.core.extras import needs
from duly.core.onestep import finish
from duly.stores.orm.begin import DjangoAlias, begin_of
from duly.testing.databases import store_at
from duly.testing.guard import NotATestDatabase, test_database


def django_test_database(
    alias: str = "default", *, prefix: str | None = None, schema: str | None = None
) -> str:
    """The address of Django's test database, with duly's tables in it and nothing in them.

    Refused unless Django's test runner, or pytest-django, has put its test database in the place
    of the real one.

    Args:
        alias: which of Django's databases.
        prefix: as in ``Duly``.
        schema: as in ``Duly``.
    """
    with needs("django", "Django"):
        from django.db import connections

        from duly.stores.orm.django_tests import delete_rows, is_test_database
    connection, where = connections[alias], names(prefix, schema)
    url = begin_of(DjangoAlias(alias), where, None).url()
    if not is_test_database(connection):
        raise NotATestDatabase(
            f"Django's database {alias!r} is {without_passwords(url)}, which is not the one that "
            "its test runner makes: ask for the fixture transactional_db of pytest-django, or use "
            "a TransactionTestCase"
        )
    if connection.in_atomic_block:
        raise NotATestDatabase(
            f"Django's database {alias!r} is inside of a transaction that this test rolls back, "
            "and duly's own connections cannot see into it: ask for transactional_db instead of "
            "db, or use a TransactionTestCase"
        )
    store = store_at(url, where, None)
    try:
        store.migrate()
        finish(store.sync_runner.run(lambda session: delete_rows(session, where), wait=WAIT))
    finally:
        store.close()
    return test_database(url)
