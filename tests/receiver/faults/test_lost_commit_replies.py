"""A commit whose reply is lost is never acknowledged, and never lost or doubled by the retry.

The wire between the application and PostgreSQL is cut after the server has committed, before it
has heard of anything, or it goes silent while it looks alive.
"""

import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

import duly
from tests.receiver.faults.books import Books
from tests.receiver.faults.doors import PATIENCE, WAYS, Answer, Door
from tests.receiver.faults.shops import SECRET, Mode, Shop
from tests.support.processes import until
from tests.support.proxies import Cut, Proxy

pytestmark = pytest.mark.slow

# The tag by which a reply tells that it committed: one statement where deliveries share a commit,
# a transaction around the handler where it is inline.
COMMITTED = {"deferred": "SELECT 1", "inline": "COMMIT", "inline async": "COMMIT"}
# What the request says that must not arrive: the first statement, and the last.
CUTS = [
    *(("deferred", "evt_cut"), ("inline", "evt_cut"), ("inline async", "evt_cut")),
    *(("inline", "COMMIT"), ("inline async", "COMMIT")),
]
DEADLINE = timedelta(seconds=2)
# The bound, and what a busy machine adds to it; less than the deadline of those who name none.
IN_TIME = 4.5


@pytest.mark.promise("I1")
def test_a_commit_whose_reply_was_lost_is_told_to_come_again_and_is_a_duplicate_then(
    wire: Proxy, own_postgres_url: str, way: str, mode: Mode
) -> None:
    with Shop(wire.url, way, mode, beside=own_postgres_url) as shop:
        shop.warm()
        delivery = shop.delivery("evt_lost")
        trap = wire.set(Cut.REPLY, COMMITTED[mode])
        answer = shop.post(delivery)
        assert trap.sprung == 1
        assert answer.come_again, answer
        assert shop.books.events()["evt_lost"] == 1, "the cut came before the commit"
        assert shop.post(delivery).said == "duplicate"
        assert shop.post().said == "accepted"


def test_a_whole_batch_whose_reply_was_lost_is_told_to_come_again_and_is_kept_once(
    wire: Proxy, own_postgres_url: str, way: str
) -> None:
    with Shop(wire.url, way, beside=own_postgres_url) as shop:
        shop.warm()
        deliveries = [shop.delivery() for _ in range(20)]
        wire.set(Cut.REPLY, "SELECT", times=2)
        answers = shop.post_all(deliveries)
        assert any(answer.come_again for answer in answers)
        for delivery, answer in zip(deliveries, answers, strict=True):
            assert answer.come_again or answer.said == "accepted", answer
            assert shop.retried(delivery).said == "duplicate"


@pytest.mark.parametrize(("mode", "text"), CUTS)
def test_what_never_reached_the_server_is_told_to_come_again_and_is_accepted_then(
    wire: Proxy, own_postgres_url: str, way: str, mode: Mode, text: str
) -> None:
    with Shop(wire.url, way, mode, beside=own_postgres_url) as shop:
        shop.warm()
        delivery = shop.delivery("evt_cut")
        trap = wire.set(Cut.BEFORE, text)
        answer = shop.post(delivery)
        assert trap.sprung == 1
        assert answer.come_again, answer
        assert "evt_cut" not in shop.books.events()
        assert shop.retried(delivery).said == "accepted"


def test_a_server_that_goes_silent_is_given_up_within_the_deadline(
    wire: Proxy, own_postgres_url: str, way: str, mode: Mode
) -> None:
    with Shop(wire.url, way, mode, beside=own_postgres_url, deadline=DEADLINE) as shop:
        shop.warm()
        delivery = shop.delivery("evt_hole")
        trap = wire.set(Cut.HOLE, COMMITTED[mode])
        begun = time.monotonic()
        answer = shop.post(delivery)
        took = time.monotonic() - begun
        assert trap.sprung == 1
        assert answer.come_again, answer
        assert shop.post().said == "accepted", "one silent connection holds up the others"
        assert shop.post(delivery).said == "duplicate"
        assert until(lambda: holed_are_given_up(wire))
        assert took < IN_TIME


def holed_are_given_up(wire: Proxy) -> bool | None:
    """Whether the application has hung up where it hears nothing; None until it has."""
    silent = [link for link in wire.links if not link._threads[1].is_alive()]
    assert silent, "no connection fell silent"
    return not any(link._threads[0].is_alive() for link in silent) or None


def build(event: duly.Event) -> None:
    """Never run here: no worker lives."""


@pytest.fixture
def github(wire: Proxy, way: str) -> Iterator[Door]:
    """A source whose ids are not signed: a known body under a new id is received alone."""
    app = duly.Duly(wire.url)
    app.source("github", secret=SECRET)
    app.on("github", name="build")(build)
    door = WAYS[way](app)
    yield door
    door.close()


@pytest.mark.promise("I14")
def test_a_conflict_whose_commit_went_unheard_is_recorded_once(
    github: Door, wire: Proxy, own_postgres_url: str
) -> None:
    def post(name: str) -> Answer:
        delivery = duly.sign("github", b'{"zen": "Design for failure."}', SECRET, id=name)
        return github.send(delivery, "/github").result(PATIENCE)

    assert post("one").said == "accepted"
    trap = wire.set(Cut.REPLY, "COMMIT")
    assert post("two").come_again
    assert trap.sprung == 1
    assert post("two").said == "conflict"
    books = Books(own_postgres_url)
    flags = books.names("SELECT flags FROM duly_events")
    assert flags == {"": 1, "conflict replayed_body": 1}
    assert len(books.ask("SELECT id FROM duly_jobs")) == 1
    books.idle()
