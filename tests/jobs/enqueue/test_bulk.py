"""Many jobs at once: all of them or none, each answered in its place, and no deadlock."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import duly
from tests.jobs.enqueue.desks import CASES, Case, Desk

if TYPE_CHECKING:
    from collections.abc import Iterator

everywhere = pytest.mark.parametrize("case", CASES, ids=str)
MANY = 10_000
# A database that refuses one of many rows, whatever the reason.
REFUSALS = {
    "sqlite": "CREATE TRIGGER refusing BEFORE INSERT ON duly_jobs "
    "WHEN NEW.name = '{name}' AND NEW.payload = x'2262616422' "
    "BEGIN SELECT RAISE(ABORT, 'refused by the test'); END",
    "postgres": "ALTER TABLE duly_jobs ADD CONSTRAINT refusing "
    "CHECK (name <> '{name}' OR payload <> '\\x2262616422'::bytea) NOT VALID",
}


@contextmanager
def refusing(desk: Desk, kind: str) -> Iterator[None]:
    """While the block lasts, the database refuses the payload ``"bad"``."""
    store = "postgres" if kind == "postgres" else "sqlite"
    desk.change(REFUSALS[store])
    yield
    if store == "postgres":
        desk.change("ALTER TABLE duly_jobs DROP CONSTRAINT refusing")
    else:
        desk.change("DROP TRIGGER refusing")


def payloads(desk: Desk) -> dict[str, Any]:
    """What is committed, by the id of the job."""
    rows = desk.rows("SELECT id, payload FROM duly_jobs WHERE name = '{name}'")
    return {str(job): json.loads(bytes(payload)) for job, payload in rows}


@pytest.mark.parametrize("case", [Case("sqlite", "async"), Case("postgres", "sync")], ids=str)
def test_ten_thousand_at_once_are_all_there_and_answered_in_their_order(
    case: Case, desk: Desk
) -> None:
    made = desk.enqueue_many(({"order": number} for number in range(MANY)), priority=3)

    assert all(one.first for one in made)
    assert payloads(desk) == {one.id: {"order": number} for number, one in enumerate(made)}
    rows = desk.rows("SELECT DISTINCT queue, priority FROM duly_jobs WHERE name = '{name}'")
    assert rows == [(desk.name, 3)]
    desk.change("DELETE FROM duly_jobs WHERE name = '{name}'")


@everywhere
def test_keys_that_are_known_lead_to_their_jobs_and_the_others_to_new_ones(
    case: Case, desk: Desk
) -> None:
    known = desk.enqueue("known", key="b")
    made = desk.enqueue_many([1, 2, 3], keys=["c", b"b", "a"])
    again = desk.enqueue_many(iter([4, 5]), keys=iter(["a", "d"]))

    assert [one.first for one in made] == [True, False, True]
    assert made[1].id == known.id
    assert again[0] == duly.types.Enqueued(made[2].id, first=False)
    assert payloads(desk) == {known.id: "known", made[0].id: 1, made[2].id: 3, again[1].id: 5}


@everywhere
@pytest.mark.parametrize("keys", [None, ["a", "b", "c"]], ids=["plain", "keyed"])
def test_one_that_the_database_refuses_is_all_of_them(
    case: Case, desk: Desk, keys: list[str] | None
) -> None:
    with refusing(desk, case.kind), pytest.raises(duly.errors.StoreRefused):
        desk.enqueue_many(["good", "bad", "good"], keys=keys)

    assert payloads(desk) == {}
    assert desk.rows("SELECT 1 FROM duly_claims WHERE scope = 'job:{name}'") == []


@everywhere
def test_a_batch_that_could_not_work_is_refused_before_anything_is_written(
    case: Case, desk: Desk
) -> None:
    bad: list[tuple[Any, Any]] = [
        (range(MANY + 1), None),
        (["good", object()], None),
        (["good", {1: 2}], None),
        ([1, 2], ["a"]),
        ([1], ["a", "b"]),
        ([1, 2], ["a", b"a"]),
        ([1, 2], ["a", None]),
        ([1, 2], ["a", []]),
        ("ab", None),
        (5, None),
    ]
    for given, keys in bad:
        with pytest.raises(duly.errors.UsageError):
            desk.enqueue_many(given, keys=keys)

    assert desk.enqueue_many([]) == []
    assert desk.enqueue_many([], keys=[]) == []
    assert payloads(desk) == {}
    assert desk.rows("SELECT 1 FROM duly_claims WHERE scope = 'job:{name}'") == []


@pytest.mark.parametrize("case", [Case("postgres", "sync")], ids=str)
def test_two_batches_in_opposite_orders_never_wait_for_one_another_in_a_ring(
    case: Case, desk: Desk
) -> None:
    keys = [f"receipt-{number}" for number in range(60)]
    ready = threading.Barrier(2, timeout=30)

    def enqueue(mine: list[str]) -> list[str]:
        with psycopg.connect(desk.app.store.url) as connection:
            connection.execute("SELECT 1")
            ready.wait()
            made = desk.app.enqueue_many(desk.name, range(60), keys=mine, tx=connection)
        found = dict(zip(mine, made, strict=True))
        return [found[key].id for key in keys]

    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(enqueue, [keys, keys[::-1]])

    assert one == other
    assert sorted(payloads(desk)) == sorted(one)
