"""The ledger can fail: each way to doctor the books is named by the lines that do not balance."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from duly.demo import shop
from duly.demo.databases import SqliteDatabase
from duly.demo.events import EventKind
from duly.demo.roles import replay_victims
from duly.demo.sender_log import ACKNOWLEDGED
from tests.demo.shops import AT_ONCE, SmallShop, events

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

FIRST = next(event for event in events() if event.sends_message)
GIFT = next(event for event in events() if event.gift)
POISON = next(event for event in events() if event.kind is EventKind.POISON)
IT = f"event = '{FIRST.id}'"
ITS_ROW = f"event_id = '{FIRST.id}'"
ITS_JOB = f"job = (SELECT job FROM effects WHERE {IT})"
NOBODY = "evt_2999999"
VICTIM, FAILED = "0198c3a2-5d1e-7b4f-9c60-8a2f41d7e305", "0198c3a2-5d1e-7b4f-9c60-8a2f41d7e306"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SmallShop:
    """A run that is over."""
    folder = tmp_path_factory.mktemp("small")
    small = SmallShop(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shop, "BACKOFF", AT_ONCE)
        small.run()
    return small


@pytest.fixture
def honest(run: SmallShop, tmp_path: Path) -> SmallShop:
    """A copy of it, to be doctored."""
    return run.copied(tmp_path / "copy")


def test_an_honest_run_balances(honest: SmallShop) -> None:
    assert honest.unbalanced() == set()


ROWS = [
    (
        f"INSERT INTO effects SELECT * FROM effects WHERE {IT}",
        {"done = effects", "effects = counted beside them"},
    ),
    (
        f"DELETE FROM effects WHERE {IT}",
        {"done = effects", "effects = counted beside them"},
    ),
    (f"UPDATE effects SET event = '{NOBODY}' WHERE {IT}", {"done = effects"}),
    (f"UPDATE effects SET amount = 1 WHERE {IT}", {"amounts of those done = balance"}),
    ("UPDATE accounts SET balance = balance + 1 WHERE account = 0",
     {"amounts of those done = balance"}),
    ("UPDATE accounts SET n = n + 1 WHERE account = 0", {"effects = counted beside them"}),
    (f"UPDATE effects SET epoch = 2 WHERE {IT}", {"effects of a late ack = allowed"}),
    (f"INSERT INTO leases SELECT job, 2, x'00' FROM effects WHERE {IT}",
     {"effects of a late ack = allowed"}),
    ("INSERT INTO leases VALUES ('one', 2, x'00'), ('two', 2, x'00')",
     {"lease tokens repeated = allowed"}),
    (f"DELETE FROM duly_events WHERE {ITS_ROW}", {"events sent = in the inbox"}),
    (f"UPDATE duly_events SET flags = 'conflict' WHERE {ITS_ROW}",
     {"events sent = in the inbox", "conflicts sent = conflicts recorded",
      "in the inbox = done + dead"}),
    (f"DELETE FROM duly_history WHERE {ITS_JOB}",
     {"in the inbox = done + dead", "done = effects"}),
    ("UPDATE duly_jobs SET state = 'ready', dead_at = NULL",
     {"in the inbox = done + dead", "poison and killers = dead", "jobs left = allowed"}),
    ("UPDATE duly_jobs SET state = 'leased', token = x'00'",
     {"in the inbox = done + dead", "poison and killers = dead", "jobs left = allowed",
      "leases left = allowed"}),
    ("DELETE FROM duly_jobs",
     {"in the inbox = done + dead", "poison and killers = dead"}),
    ("DELETE FROM duly_history WHERE name = 'wrap'", {"gifts = wrapped"}),
    ("INSERT INTO breaches VALUES ('job', 'dead', 'leased')", {"forbidden transitions = allowed"}),
    ("INSERT INTO breaches VALUES ('job', 'dead', 'ready')",
     {"replayed = dead letters that came back"}),
    ("INSERT INTO duly_history SELECT * FROM duly_history WHERE outcome = 'sent' LIMIT 1",
     {"messages staged = marked as sent, once"}),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "wrong"), ROWS, ids=range(len(ROWS)))
def test_the_ledger_names_what_does_not_balance(
    honest: SmallShop, statement: str, wrong: set[str]
) -> None:
    drop_triggers(honest)
    honest.doctor(statement)

    assert wrong <= honest.unbalanced()


def drop_triggers(honest: SmallShop) -> None:
    """They would note what is done to the jobs here."""
    with closing(sqlite3.connect(honest.folder / "storm.db")) as connection:
        for name in ("storm_leases", "storm_breaches", "storm_drops"):
            connection.execute(f"DROP TRIGGER {name}")


def test_what_arrived_downstream_must_be_what_was_staged(honest: SmallShop) -> None:
    honest.doctor(f"DELETE FROM receipts WHERE {IT}", "downstream.db")

    assert honest.unbalanced() == {"messages staged = ids seen downstream"}


def test_one_event_in_two_messages_does_not_balance(honest: SmallShop) -> None:
    honest.doctor(f"INSERT INTO receipts VALUES ('another', '{FIRST.id}')", "downstream.db")

    assert honest.unbalanced() == {"messages staged = ids seen downstream"}


def test_a_message_that_arrived_twice_balances(honest: SmallShop) -> None:
    honest.doctor(f"INSERT INTO receipts SELECT * FROM receipts WHERE {IT}", "downstream.db")

    assert honest.unbalanced() == set()


def test_a_gift_that_no_worker_saw_through_does_not_balance(honest: SmallShop) -> None:
    [(job, *_), *_] = honest.rows("SELECT job FROM duly_history WHERE name = 'wrap'")
    journal = honest.folder / "worker-0.journal"
    kept = [line for line in journal.read_text().splitlines() if str(job) not in line]
    journal.write_text("".join(f"{line}\n" for line in kept))

    assert honest.unbalanced() == {"wrapped = seen through by a worker"}


def test_an_event_that_was_told_accepted_twice_does_not_balance(honest: SmallShop) -> None:
    honest.books.answers["accepted"] += 1
    honest.books.deliveries += 1

    assert honest.unbalanced() == {"told accepted = events they are for"}


def test_an_event_that_was_never_acknowledged_does_not_balance(honest: SmallShop) -> None:
    honest.books.flags[FIRST.number] &= ~ACKNOWLEDGED

    assert honest.unbalanced() == {"events sent = acknowledged"}


def test_a_forgery_that_was_taken_does_not_balance(honest: SmallShop) -> None:
    honest.books.not_genuine["accepted"] += 1
    honest.books.record_wrong_answer("evt_1: was told accepted")

    assert honest.unbalanced() == {
        "forged or too old = refused or no reply",
        "wrong answers = allowed",
    }


LATE = "T 1 job 1"
NEWEST = "T 2 job 2"


def lease_again(honest: SmallShop) -> None:
    """A job whose first lease was lost, and came to its end all the same."""
    honest.doctor("INSERT INTO leases VALUES ('job', 2, x'00')")
    honest.note(LATE)
    honest.note(NEWEST)


def test_a_late_ack_after_which_the_newest_lease_was_refused_does_not_balance(
    honest: SmallShop,
) -> None:
    lease_again(honest)
    honest.note("L 2 job 2")

    assert honest.unbalanced() == {"late acks tried = late acks refused"}


def test_a_late_ack_with_the_effect_does_not_balance(honest: SmallShop) -> None:
    honest.doctor(f"INSERT INTO leases SELECT job, 2, x'00' FROM effects WHERE {IT}")

    assert honest.unbalanced() == {
        "late acks tried = late acks refused",
        "effects of a late ack = allowed",
    }


def test_a_late_ack_after_which_the_newest_lease_ended_the_job_balances(
    honest: SmallShop,
) -> None:
    lease_again(honest)

    assert honest.unbalanced() == set()


def test_a_job_that_lost_its_workers_by_no_fault_of_its_own_is_replayed_and_no_other(
    honest: SmallShop,
) -> None:
    columns = "scope, queue, payload, state, run_at, priority, attempts, max_attempts, epoch"
    columns += ", created_at, dead_at"
    gift = f"(SELECT id FROM duly_events WHERE event_id = '{GIFT.id}')"
    honest.doctor("UPDATE duly_jobs SET rescues = 5 WHERE state = 'dead'")  # poison stays dead
    for job, rescues in ((VICTIM, 5), (FAILED, 4)):
        honest.doctor(
            f"INSERT INTO duly_jobs (id, name, event, rescues, {columns})"
            f" SELECT '{job}', 'wrap', {gift}, {rescues}, {columns} FROM duly_jobs"
            " WHERE state = 'dead' AND name <> 'wrap' LIMIT 1"
        )
    books, database = honest.folder / "sender.json", SqliteDatabase(honest.settings)
    honest.books.save(books)

    assert "poison and killers = dead" in honest.unbalanced()
    honest.doctor("DELETE FROM breaches")  # what was noted of the doctoring
    assert replay_victims(honest.settings, database, books) == 1
    # It came back because it was replayed; one that came back by itself would not balance.
    assert "forbidden transitions = allowed" not in honest.unbalanced(replayed=1)
    assert "replayed = dead letters that came back" not in honest.unbalanced(replayed=1)
    assert "replayed = dead letters that came back" in honest.unbalanced()
    ready = database.query("SELECT id FROM {jobs} WHERE state = 'ready'")
    assert [job for (job,) in ready] == [VICTIM]
    # One that died of its own errors stays dead, and the books do not balance for it.
    assert "poison and killers = dead" in honest.unbalanced()
    honest.doctor(f"DELETE FROM duly_jobs WHERE id = '{FAILED}'")
    assert "poison and killers = dead" not in honest.unbalanced()
    assert replay_victims(honest.settings, database, books) == 0
