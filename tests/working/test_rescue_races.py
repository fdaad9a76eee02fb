"""A lease that changes hands while somebody looks for lost ones is not one of these."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg

import duly
from duly._kernel.ids import new_id
from duly._kernel.options import Names
from duly.stores.sql.statements import statements
from tests.conftest import HandClock
from tests.processes.leading import PATIENCE, until
from tests.working.moving import Bench
from tests.working.records import Records

LOOKS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"


def rescue_slowly(url: str) -> list[Any]:
    """Take back what is lost, a second after the look at what there is."""
    text = statements("postgres", Names(), "pyformat")["jobs_rescue"].text
    slow = text.replace("clock_timestamp()", "(SELECT clock_timestamp() FROM pg_sleep(1))")
    assert slow != text
    values = {"now": None, "worker": new_id(), "limit": 10, "most": 5, "waits": "[0]", "error": b""}
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(slow, values).fetchall()


def test_a_lease_that_another_worker_has_by_now_is_not_taken_back(working_postgres: str) -> None:
    with duly.store(working_postgres) as store, Records(working_postgres).looking() as records:
        records.clear()
        bench = Bench(store, records, HandClock())
        bench.insert()
        bench.take()  # by a worker that never said that it lives
        with ThreadPoolExecutor(1) as threads:
            rescued = threads.submit(rescue_slowly, working_postgres)
            until(lambda: records.rows(LOOKS) == [(1,)] or None)
            assert bench.rescue()
            records.run("UPDATE duly_jobs SET run_at = now() - interval '1 hour'")
            bench.beat()
            newest = bench.take(rescued=True)
            assert rescued.result(PATIENCE) == []
        assert bench.attempt("done", newest)
