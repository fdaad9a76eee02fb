"""No delivery can fail its neighbours: what one of a batch meets, it meets alone."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from duly.inbox.new_event import event_digest
from tests.receiver.faults.crowds import Crowd
from tests.receiver.faults.doors import PATIENCE, Answer
from tests.receiver.faults.gates import gated, occupied, queued
from tests.receiver.faults.shops import Mode, Shop
from tests.stores.test_retry import set_for_everyone
from tests.support.proxies import Proxy

pytestmark = pytest.mark.slow

NEIGHBOURS = 9
# The wait for a key is bounded by two seconds; the rest is the machine's.
BOUND = 4.5
REFUSING = {
    True: [
        "CREATE TRIGGER poison BEFORE INSERT ON duly_events WHEN new.type = 'poison'"
        " BEGIN SELECT RAISE(ABORT, 'poison'); END"
    ],
    False: ["ALTER TABLE duly_events ADD CONSTRAINT poison CHECK (type <> 'poison')"],
}
ACCEPTING = {
    True: "DROP TRIGGER poison",
    False: "ALTER TABLE duly_events DROP CONSTRAINT poison",
}
# Aborts the first insertions, whoever makes them: a sequence is never rolled back.
ABORTING = [
    "CREATE SEQUENCE aborted",
    """CREATE FUNCTION abort_first() RETURNS trigger LANGUAGE plpgsql AS $$
       BEGIN
           IF nextval('aborted') <= {times} THEN
               RAISE EXCEPTION 'aborted' USING ERRCODE = '{sqlstate}';
           END IF;
           RETURN new;
       END $$""",
    "CREATE TRIGGER abort_first BEFORE INSERT ON duly_events"
    " FOR EACH ROW EXECUTE FUNCTION abort_first()",
]
HELD = (
    "INSERT INTO duly_claims (scope, digest, key_text, first_seen, state, token, epoch)"
    " VALUES ('shop', %s, 'held', now(), 'done', 'other', 1)"
)


def test_a_delivery_that_cannot_be_written_is_told_so_alone(url: str, way: str, mode: Mode) -> None:
    with Shop(url, way, mode) as shop:
        poison, answers = together(shop, way, REFUSING[shop.books.is_sqlite])
        assert [answer.said for answer in answers] == ["accepted"] * NEIGHBOURS
        assert poison.come_again, poison
        assert poison.said == "STORE_UNAVAILABLE"
        assert "evt_poison" not in shop.books.events()
        shop.books.ask(ACCEPTING[shop.books.is_sqlite])
        assert shop.retried(shop.delivery("evt_poison", "poison")).said == "accepted"


def together(shop: Shop, way: str, statements: list[str]) -> tuple[Answer, list[Answer]]:
    """Send one that is refused in one batch with its neighbours."""
    gate = gated(shop.app, way)
    shop.warm()
    for statement in statements:
        shop.books.ask(statement)
    deferred = shop.mode == "deferred"
    first = occupied(shop, gate) if deferred else []
    before = gate.batches
    under_way = [shop.send(shop.delivery()) for _ in range(NEIGHBOURS)]
    poison = shop.send(shop.delivery("evt_poison", "poison"))
    if deferred:
        queued(shop.app, way, NEIGHBOURS + 1)
    gate.open()
    assert all(answer.result(PATIENCE).said == "accepted" for answer in first)
    answers = [answer.result(PATIENCE) for answer in under_way]
    assert gate.batches == before + deferred, "they were not in one batch"
    return poison.result(PATIENCE), answers


@contextmanager
def held(url: str, name: str) -> Iterator[None]:
    """Somebody else's open transaction that has claimed an event; rolled back at the end."""
    with psycopg.connect(url) as other:
        other.execute(HELD, [event_digest("shop", name)])
        yield
        other.rollback()


def test_a_key_that_somebody_holds_is_waited_for_alone(
    own_postgres_url: str, way: str, mode: Mode
) -> None:
    ended: dict[object, float] = {}
    with Shop(own_postgres_url, way, mode) as shop:
        shop.warm()
        with held(own_postgres_url, "evt_held"):
            begun = time.monotonic()
            one = shop.send(shop.delivery("evt_held"))
            others = [shop.send(shop.delivery()) for _ in range(NEIGHBOURS)]
            for answer in [one, *others]:
                answer.add_done_callback(lambda done: ended.setdefault(done, time.monotonic()))
            assert [answer.result(PATIENCE).said for answer in others] == ["accepted"] * NEIGHBOURS
            assert one.result(PATIENCE).come_again
            assert one.result().said == "HELD"
        assert ended[one] - begun < BOUND
        assert all(ended[other] < ended[one] for other in others), "neighbours waited as long"
        assert shop.retried(shop.delivery("evt_held")).said == "accepted"


@pytest.mark.parametrize("sqlstate", ["40001", "40P01"])
def test_what_the_server_aborts_is_run_again(
    wire: Proxy, own_postgres_url: str, way: str, mode: Mode, sqlstate: str
) -> None:
    with Shop(wire.url, way, mode, beside=own_postgres_url) as shop:
        shop.warm()
        for statement in ABORTING:
            shop.books.ask(statement.format(times=2, sqlstate=sqlstate))
        delivery = shop.delivery()
        # Only what duly wrote itself may run twice in one request: a handler may have done more
        # than its transaction undoes, and its sender comes again.
        answer = shop.post(delivery) if mode == "deferred" else shop.retried(delivery)
        assert answer.said == "accepted"
        assert wire.errors.count(sqlstate) == 2


def test_a_delivery_that_is_aborted_for_ever_is_told_to_come_again(
    own_postgres_url: str, way: str, mode: Mode
) -> None:
    with Shop(own_postgres_url, way, mode) as shop:
        shop.warm()
        for statement in ABORTING:
            shop.books.ask(statement.format(times=50, sqlstate="40001"))
        delivery = shop.delivery()
        assert shop.post(delivery).come_again
        shop.books.ask("SELECT setval('aborted', 50)")
        assert shop.post(delivery).said == "accepted"


def test_the_strictest_isolation_costs_nothing_but_time(
    own_postgres_url: str, way: str, mode: Mode
) -> None:
    set_for_everyone(own_postgres_url, "default_transaction_isolation", "serializable")
    with Shop(own_postgres_url, way, mode) as shop, Crowd(shop) as crowd:
        crowd.accepted_after(0, 100)
