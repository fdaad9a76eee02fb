"""A transaction elsewhere that lasts keeps dead rows in place; claiming must not walk them all.

While it lasts nothing can be vacuumed. What claims read is counted by the server itself.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext

import psycopg
import pytest

import duly
from duly.jobs.job import Job
from duly.worker import slots
from tests.support.processes import until

pytestmark = pytest.mark.slow

# So many were done while the snapshot was held, in bulks, and so many are left.
BULK, BULKS, LEFT = 10_000, 2, 4_000
# Index entries read for each job: some hundreds where each batch walks past all that are done.
BOUND = 200.0
LEASE = "UPDATE duly_jobs SET state = 'leased', epoch = 1, token = 'x'"
READ = (
    "SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname = 'duly_jobs'"
    " AND indexrelname <> 'duly_jobs_pkey'"
)
GONE = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'duly'"
    " AND datname = current_database()"
)


@contextmanager
def old_snapshot(url: str) -> Iterator[None]:
    """A transaction that sees the database as it is now, until the block ends."""
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM duly_jobs")
        yield


def application(url: str) -> duly.Duly:
    app = duly.Duly(url)

    @app.job(name="nothing")
    def nothing(job: Job) -> None:
        return

    return app


def read_so_far(url: str) -> int:
    """Index entries that were read; each connection says so at its end."""
    with psycopg.connect(url, autocommit=True) as connection:
        until(lambda: connection.execute(GONE).fetchone() == (0,) or None)
        row = connection.execute(READ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("held", [False, True], ids=["alone", "beside an old snapshot"])
def test_what_a_claim_reads_does_not_grow_with_what_is_done(
    own_postgres_url: str, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A look from the start now and then is by the clock: on a busy machine, all the time.
    monkeypatch.setattr(slots, "FROM_THE_START", 3600.0)
    url = own_postgres_url
    with psycopg.connect(url, autocommit=True) as connection:
        # Nobody tidies up in between: the two cases differ in the snapshot only.
        connection.execute("ALTER TABLE duly_jobs SET (autovacuum_enabled = false)")
    with old_snapshot(url) if held else nullcontext():
        with closing(application(url)) as app:
            for _ in range(BULKS):
                app.enqueue_many("nothing", [None] * BULK)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(LEASE)
            connection.execute("DELETE FROM duly_jobs")
        before = read_so_far(url)
        with closing(application(url)) as app:
            app.enqueue_many("nothing", [None] * LEFT)
            assert app.work().done == LEFT
        assert (read_so_far(url) - before) / LEFT < BOUND
