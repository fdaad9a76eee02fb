"""A database that goes away under load: senders are told to come again, and nothing is lost.

Once it is back the application goes on by itself, at once, however long it was away.
"""

import time
from collections.abc import Iterator

import psycopg
import pytest

import duly
from tests.receiver.faults.clusters import Cluster, cluster
from tests.receiver.faults.crowds import Crowd
from tests.receiver.faults.shops import Mode, Shop
from tests.stores.test_lost_connections import terminate_all

pytestmark = pytest.mark.slow

TERMINATIONS = 2
# A strike between two commits goes unnoticed; so many in a row do not.
STRIKES = 5
# Pools try again after pauses that grow; they must not grow with the outage. One that doubles them
# from a second on would try after 15 seconds, and then after 31.
OUTAGE = 18.0
SOON = 9.0
# The deadline of a delivery, and what a busy machine adds to it.
LONGEST = 12.0


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    """A server that this module may strike down."""
    with cluster() as started:
        duly.store(started.url).migrate()
        yield started


@pytest.fixture
def struck(server: Cluster) -> Iterator[Cluster]:
    """The same, empty."""
    server.back()
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS effects")
        connection.execute("TRUNCATE duly_claims, duly_events, duly_deliveries, duly_jobs")
    yield server
    server.back()


@pytest.mark.promise("I1", "I6")
def test_a_server_struck_down_under_load_costs_nothing_but_time(
    struck: Cluster, way: str, mode: Mode
) -> None:
    with Shop(struck.url, way, mode) as shop:
        with Crowd(shop) as crowd:
            crowd.accepted_after(0)
            for _ in range(STRIKES):
                struck.strike()
                back = struck.back()
                assert crowd.accepted_after(back) - back < SOON
                if crowd.said["STORE_UNAVAILABLE"]:
                    break
        assert crowd.said["STORE_UNAVAILABLE"] > 0, "nobody noticed"
        assert set(crowd.said) <= {"accepted", "duplicate", "STORE_UNAVAILABLE", "HELD"}


def test_recovery_does_not_take_as_long_as_the_outage_did(struck: Cluster, way: str) -> None:
    with Shop(struck.url, way) as shop:
        with Crowd(shop) as crowd:
            crowd.accepted_after(0)
            with struck.away():
                time.sleep(OUTAGE)  # the length of the outage is what is tried
            back = struck.back()
            assert crowd.accepted_after(back) - back < SOON
        assert crowd.longest < LONGEST, "a request was not answered in time"


def test_an_application_that_starts_while_the_server_is_away_works_when_it_is_back(
    struck: Cluster, way: str, mode: Mode
) -> None:
    with Shop(struck.url, way, mode) as shop:  # which opens nothing before its first request
        delivery = shop.delivery()
        with struck.away():
            begun = time.monotonic()
            assert shop.post(delivery).come_again
            assert time.monotonic() - begun < SOON
        struck.back()
        assert shop.retried(delivery).said == "accepted"


def test_connections_that_the_server_ends_cost_nothing_but_time(
    own_postgres_url: str, way: str, mode: Mode
) -> None:
    with Shop(own_postgres_url, way, mode) as shop, Crowd(shop) as crowd:
        crowd.accepted_after(0)
        for _ in range(TERMINATIONS):
            assert terminate_all(own_postgres_url) >= 1
            now = time.monotonic()
            assert crowd.accepted_after(now) - now < SOON
