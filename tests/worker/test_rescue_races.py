"""A lease that changes hands while somebody looks for lost ones is not one of these."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg

import duly
from duly.core.defaults import Names
from duly.core.ids import new_id
from duly.stores.sql.statements import statements
from tests.conftest import HandClock
from tests.support.processes.leading import PATIENCE, until
from tests.worker.moving import Bench
from tests.worker.records import Records

# An advisory lock that the test holds while the rescue is to wait. It belongs to one database, so
# no other test can be taken for the rescue.
GATE = 20_818
SHUT = f"SELECT pg_advisory_lock({GATE})"
OPEN = f"SELECT pg_advisory_unlock({GATE})"
WAITING = (
    f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = {GATE} AND NOT granted "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def rescue_slowly(url: str) -> list[Any]:
    """Take back what is lost; wait at the gate after the look at what there is."""
    text = statements("postgres", Names(), "pyformat")["jobs_rescue"].text
    gate = f"(SELECT clock_timestamp() FROM pg_advisory_xact_lock({GATE}))"
    slow = text.replace("clock_timestamp()", gate)
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
        records.run(SHUT)
        with ThreadPoolExecutor(1) as threads:
            rescued = threads.submit(rescue_slowly, working_postgres)
            try:
                until(lambda: records.rows(WAITING) == [(1,)] or None)
                assert bench.rescue()
                records.run("UPDATE duly_jobs SET run_at = now() - interval '1 hour'")
                bench.beat()
                newest = bench.take(rescued=True)
            finally:
                records.run(OPEN)
            assert rescued.result(PATIENCE) == []
        assert bench.attempt("done", newest)
