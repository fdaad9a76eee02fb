"""A server killed at any moment has lost nothing that it acknowledged; asked to end, it answers."""

import random
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

import duly
from tests.receiver.faults.books import EFFECTS, Books
from tests.receiver.faults.crowds import UNANSWERED, Crowd
from tests.receiver.faults.serving import Served, answered, begin, up
from tests.receiver.faults.shops import Mode
from tests.support.sizes import sized

pytestmark = pytest.mark.slow

KILLS = sized(6, whole=20)
IN_FLIGHT = 8


@pytest.fixture
def place(url: str) -> str:
    """A database with duly's tables and the user's."""
    with duly.store(url):
        Books(url).ask(EFFECTS)
    return url


@pytest.mark.promise("I1", "I2")
@pytest.mark.parametrize(("mode", "kills"), [("deferred", KILLS), ("inline", 3)])
def test_a_server_killed_under_load_has_kept_whatever_it_acknowledged(
    place: str, mode: Mode, kills: int
) -> None:
    with Served(place, mode) as served:
        up(served)
        with Crowd(served) as crowd:
            for _ in range(kills):
                crowd.goes_on(random.randrange(10, 60))
                served.kill()
                served.start()
            up(served)
        assert crowd.said[UNANSWERED] > 0, "the server was never in the middle of anything"
        assert crowd.said["accepted"] > kills


@contextmanager
def stuck(url: str) -> Iterator[None]:
    """Nobody can write an event until the block ends."""
    if url.startswith("sqlite:"):
        file = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        file.execute("BEGIN IMMEDIATE")
        yield
        file.close()
    else:
        with psycopg.connect(url) as connection:
            connection.execute("LOCK TABLE duly_events IN EXCLUSIVE MODE")
            yield


@pytest.mark.parametrize("mode", ["deferred", "inline"])
def test_a_server_that_is_asked_to_end_answers_what_is_in_flight(place: str, mode: Mode) -> None:
    with Served(place, mode) as served:
        up(served)
        connections = [served.connect() for _ in range(IN_FLIGHT)]
        for connection in connections:  # so that the server has taken each of them
            begin(connection, served.delivery())
            assert answered(connection).said == "accepted"
        idle = served.connect()
        deliveries = [served.delivery() for _ in range(IN_FLIGHT)]
        with stuck(place):
            for connection, delivery in zip(connections, deliveries, strict=True):
                begin(connection, delivery)
            idle.request("GET", "/healthz")  # answered after all that was sent before is read
            assert idle.getresponse().read()
            served.terminate()
            assert idle.sock.recv(1) == b"", "the server has not begun to end"
        for connection, delivery in zip(connections, deliveries, strict=True):
            answer = answered(connection)
            served.heard(delivery, answer)
            assert answer.said == "accepted"
        served.ended()
        assert len(served.books.events()) == 2 * IN_FLIGHT
