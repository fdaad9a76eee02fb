"""Real servers for the tests: found or fetched, started on private ports, gone with the run.

    with postgres() as admin_url, template_database(admin_url, migrate) as template:
        url = create_database(admin_url, template)

`python -m tests.support.servers -- COMMAND` starts them once around a command. What the environment
says:

    DULY_TEST_POSTGRES           URL of a running server's superuser: use it, start none
    DULY_TEST_POSTGRES_FROM      machine, wheel or debian: look there only
    DULY_TEST_PGBOUNCER          path of the pgbouncer program
    DULY_TEST_PGBOUNCER_URL      URL of a running PgBouncer before that server
    DULY_TEST_PGBOUNCER_MISSING  why there is none: do not look again
"""

from .bouncer import pgbouncer
from .databases import (
    create_database,
    database,
    drop_database,
    template_database,
    through,
)
from .postgresql import postgres
from .running import Missing, StartFailed

__all__ = [
    "Missing",
    "StartFailed",
    "create_database",
    "database",
    "drop_database",
    "pgbouncer",
    "postgres",
    "template_database",
    "through",
]
