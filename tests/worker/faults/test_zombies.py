"""A worker that was stopped past its lease comes back from the dead: what it does is refused.

Its job was done elsewhere meanwhile. There is one effect, one end, and the worker goes on.
"""

from collections.abc import Iterator

import pytest

from tests.support.processes import until
from tests.worker.faults.benches import STEADY, Bench, hear

pytestmark = pytest.mark.slow

LOST = "was lost"
SLOTS = 10
QUICK = 8 * SLOTS
IDLE_INSIDE = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND state = 'idle in transaction'"
)


@pytest.fixture
def bench(url: str) -> Iterator[Bench]:
    """A database with workers at their gates."""
    with Bench(url) as made:
        yield made


def stopped_and_replaced(bench: Bench) -> None:
    """Stop a worker in the middle, have the job done elsewhere, and let the first one go on."""
    with bench.worker("closed") as zombie:
        hear(zombie, "at the gate")
        bench.stop(zombie)
        bench.bury(zombie)
        with bench.worker("open"):
            bench.done()
        [(_, winner)] = bench.ledger.ask("SELECT name, worker FROM effects")
        assert winner != str(zombie.pid)
        zombie.send("open")
        zombie.go_on()
        hear(zombie, LOST)

        bench.app.enqueue("plain")
        bench.done(2)
    effects = bench.ledger.ask("SELECT worker FROM effects")
    assert sorted(effects) == sorted([(winner,), (str(zombie.pid),)]), "a late effect, or none"
    first, second, later = bench.ledger.given()
    assert first[0] == second[0] != later[0]
    assert second[1] == first[1] + 1


@pytest.mark.promise("I8")
@pytest.mark.parametrize("name", ["leased sync", "leased async"])
def test_a_worker_stopped_past_its_lease_is_refused_its_late_effect(
    bench: Bench, name: str
) -> None:
    bench.app.enqueue(name)
    stopped_and_replaced(bench)


@pytest.mark.promise("I8")
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_worker_stopped_before_its_transaction_begins_leaves_nothing_of_it(
    bench: Bench, colour: str
) -> None:
    bench.deliver(colour)
    stopped_and_replaced(bench)


def refused_beside_another(bench: Bench) -> None:
    """Let a worker go on while another one, who has its lease now, is in the middle of the job."""
    with bench.worker("closed") as zombie:
        hear(zombie, "at the gate")
        bench.stop(zombie)
        bench.bury(zombie)
        with bench.worker("closed", STEADY) as other:
            hear(other, "at the gate")
            zombie.send("open")
            zombie.go_on()
            hear(zombie, LOST)
            assert bench.ledger.effects() == {}
            other.send("open")
            bench.done()
    assert bench.ledger.ask("SELECT worker FROM effects") == [(str(other.pid),)]


@pytest.mark.parametrize("name", ["leased sync", "leased async"])
def test_a_late_effect_is_refused_also_while_another_worker_has_the_lease(
    bench: Bench, name: str
) -> None:
    bench.app.enqueue(name)
    refused_beside_another(bench)


def test_a_late_transaction_rolls_back_also_while_another_worker_has_the_lease(
    bench: Bench,
) -> None:
    bench.deliver("sync")
    refused_beside_another(bench)


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_a_late_commit_is_refused_also_while_another_worker_has_the_lease(bench: Bench) -> None:
    bench.app.enqueue("tx async")
    refused_beside_another(bench)


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
@pytest.mark.parametrize("name", ["tx sync", "tx async"])
def test_a_worker_stopped_inside_its_transaction_rolls_back_and_held_nobody_up(
    bench: Bench, name: str
) -> None:
    bench.app.enqueue(name)
    stopped_and_replaced(bench)
    assert bench.ledger.ask(IDLE_INSIDE) == [(0,)]


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_a_stopped_transaction_keeps_its_locks_no_longer_than_its_timeout(bench: Bench) -> None:
    bench.ledger.ask("CREATE TABLE accounts AS SELECT 100 AS balance")
    bench.app.enqueue("account")
    stopped_and_replaced(bench)
    assert bench.ledger.ask("SELECT balance FROM accounts") == [(99,)]


def test_what_a_stopped_worker_held_and_never_began_is_not_begun_late(bench: Bench) -> None:
    bench.app.enqueue_many("quick", [None] * QUICK)  # so that it holds jobs ahead of their time
    bench.app.enqueue_many("plain", [None] * 2 * SLOTS)
    with bench.worker("closed") as zombie:
        for _ in range(SLOTS):
            hear(zombie, "at the gate")
        until(lambda: len(bench.ledger.given()) > QUICK + SLOTS or None)
        bench.stop(zombie)
        with bench.worker("open"):
            bench.done(QUICK + 2 * SLOTS)
        zombie.send("open")
        zombie.go_on()
        for _ in range(SLOTS):
            hear(zombie, LOST)

        bench.app.enqueue("plain")
        bench.done(QUICK + 2 * SLOTS + 1)
    mine = f"SELECT count(*) FROM effects WHERE worker = '{zombie.pid}'"
    [(effects,)] = bench.ledger.ask(mine)
    assert effects <= QUICK + SLOTS + 1, "it began what it had lost"
