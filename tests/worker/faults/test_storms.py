"""Eight workers, jobs of every kind, and kills throughout: each job ends as its kind demands.

The effects are counted in a table that forbids no double. The whole size, 20,000 jobs, is for
`make storm-jobs`.
"""

import os
import time
from collections.abc import Iterator

import pytest

import duly
from tests.receiver.faults.clusters import Cluster, cluster
from tests.support.servers import through
from tests.worker.faults.storms import Storm

pytestmark = pytest.mark.slow

JOBS = int(os.environ.get("DULY_STORM_JOBS", "500"))
WORKERS = 8
# Of a hundred jobs; each order has an invoice for its child.
SHARES = {
    "ship": 14, "ship_awaited": 10, "sell": 8, "sell_awaited": 8, "mail": 15, "mail_awaited": 10,
    "flaky": 5, "flaky_mail": 4, "order": 8, "look": 6, "hopeless": 2, "doomed": 2,
}  # fmt: skip
# What the user's own connections do when their server goes away is the user's business.
OWN = ("mail", "mail_awaited", "flaky_mail")
# Jobs for each worker that is killed, and for each job that kills its workers; at least a few.
KILLED, POISON = 500, 2000
KILLS = 5
# Longer than any statement is tried for.
OUTAGE = 3.0


def sizes(jobs: int, *, poison: int = 0) -> dict[str, int]:
    return {name: jobs * share // 100 for name, share in SHARES.items()} | {"poison": poison}


@pytest.mark.long
def test_workers_killed_at_random_do_every_job_as_its_kind_demands(url: str) -> None:
    with Storm(url, workers=WORKERS) as storm:
        storm.enqueue(sizes(JOBS, poison=max(JOBS // POISON, 1)))
        storm.run(kills=max(JOBS // KILLED, KILLS))


def test_workers_behind_a_transaction_pooler_do_the_same(
    bouncer_address: str, own_postgres_url: str
) -> None:
    pooled = through(bouncer_address, own_postgres_url)
    with Storm(pooled, workers=2, beside=own_postgres_url) as storm:
        storm.enqueue(sizes(500))
        storm.run(kills=2)


@pytest.fixture
def server() -> Iterator[Cluster]:
    """A server that can be struck down."""
    with cluster() as started:
        duly.store(started.url).migrate()
        yield started


def test_a_server_struck_down_under_load_costs_its_workers_nothing_but_time(
    server: Cluster,
) -> None:
    with Storm(server.url, workers=3) as storm:
        storm.enqueue({name: size for name, size in sizes(600).items() if name not in OWN})
        storm.until_left(300)
        server.strike()
        server.back()
        storm.ledger.reopen()
        storm.until_left(150)
        with server.away():
            time.sleep(OUTAGE)  # the length of the outage is what is tried
        server.back()
        storm.ledger.reopen()
        storm.run()
        assert storm.fallen == 0, "a worker did not come back by itself"
