"""The crash matrix finds what is broken, names it, and is not content with a fault that missed."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from verification.crash_matrix.bench import Bench, Delivery
from verification.crash_matrix.cases import Case, case_of, paired, planned
from verification.crash_matrix.command import look_again, main
from verification.crash_matrix.driving import Shown
from verification.crash_matrix.faults import FAULTS
from verification.crash_matrix.findings import Findings
from verification.crash_matrix.flows import FLOWS
from verification.crash_matrix.lane import Lane
from verification.crash_matrix.parts import delivering, sending
from verification.crash_matrix.places import SqlitePlace
from verification.crash_matrix.poolers import pooler_of
from verification.crash_matrix.shop import Blocking
from verification.crash_matrix.traps import Boundary, Passed

import duly
from tests.receiver.faults.clusters import Cluster, alive
from tests.support.processes.leading import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from verification.crash_matrix.places import Place

MODE = "sqlite-sync"
STATEMENTS = Path(duly.__file__).parent / "stores" / "sqlite" / "statements"
LEFT_OUT = {
    "claims_result": "of once(…) in a transaction of the user's, which is committed or not",
    "effects_clear": "a person's answer to one question: one statement, and asked again if lost",
    "effects_of": "reads",
    "effects_read": "reads",
    "effects_resolve": "as effects_clear",
    "jobs_counts": "reads",
    "jobs_dead_event": "reads",
    "outbox_counts": "reads",
    "outbox_read": "reads",
    "outbox_unattended": "reads",
    "relays_live": "reads",
    "schema_missing": "reads",
    "sends_retake": "keys_retake, for messages",
    "workers_idle": "of PostgreSQL's workers that wait to be woken",
    "workers_live": "reads",
}
INSERT = "INSERT INTO effects (what, who) VALUES (:what, :"
EFFECT = Boundary(INSERT, 0, "after")


@pytest.fixture
def lane(tmp_path: Path) -> Iterator[Lane]:
    made = Lane(SqlitePlace(tmp_path), tmp_path)
    yield made
    made.close()


def test_a_flow_that_nothing_strikes_is_whole_and_tells_its_boundaries(lane: Lane) -> None:
    passed = lane.plan(MODE, "job-tx").passed
    names = {each.at.name for each in passed}
    assert {"jobs_take", INSERT, "BEGIN IMMEDIATE"} <= names
    assert {each.at.side for each in passed} == {"before", "after"}
    # An effect is inside a transaction, which a stopped process would keep from everybody else.
    assert next(each for each in passed if each.at == EFFECT).inside


def test_a_kill_in_the_middle_of_a_handler_leaves_one_effect(lane: Lane) -> None:
    verdict = lane.run(Case(MODE, "job-tx", EFFECT, "kill"))
    assert verdict.violations == []


def test_a_fault_that_never_strikes_fails_its_case(lane: Lane) -> None:
    [violation] = lane.run(
        Case(MODE, "claim", Boundary("no such statement", 0, "before"), "kill")
    ).violations
    assert violation.startswith("vacuous")
    assert "claim comes to: BEGIN" in violation


def test_an_effect_outside_its_transaction_is_found(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mail(self: Blocking, job: object) -> None:
        # On a connection of its own, committed by itself, as everybody writes it first.
        lane.place.rows("INSERT INTO effects (what) VALUES ('mail it')")
        lane.place.rows("INSERT INTO totals (total) VALUES (1)")

    monkeypatch.setattr(Blocking, "mail", mail)
    changed = replace(FLOWS["job-leased"], calls=(), effects=("mail it",))
    monkeypatch.setitem(FLOWS, "job-leased", changed)
    before_the_end = Boundary("jobs_done_many", 0, "before")
    found = lane.run(Case(MODE, "job-leased", before_the_end, "kill")).violations
    assert found == ["I3: the effect 'mail it' is there 2 times"]


def test_a_forged_delivery_that_is_taken_is_found(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = delivering(Delivery("orders", "evt_fake"))
    monkeypatch.setitem(FLOWS, "receive-forged", replace(FLOWS["receive-forged"], run=taken))
    with pytest.raises(AssertionError, match="I13: a forged evt_fake was answered 200"):
        lane.plan(MODE, "receive-forged")


@pytest.mark.wide
def test_a_boundary_that_comes_and_goes_is_told_apart_from_one_that_is_missed(lane: Lane) -> None:
    never = Case(MODE, "claim", Boundary("no such statement", 0, "before"), "kill")
    verdict = lane.run(never, planned=True)  # it was there when the matrix was planned
    assert verdict.unsteady
    assert not verdict.violations


def test_a_matrix_with_many_holes_is_not_content() -> None:
    findings = Findings(cases=99, gone=["one"])
    assert not findings.too_many_gone()
    findings.gone.append("two")
    assert findings.too_many_gone()


def test_a_plan_that_leaves_much_out_is_not_content() -> None:
    findings = Findings(cases=99, boundaries=95, left_out=5)
    assert not findings.too_many_gone()
    findings.left_out += 1
    assert findings.too_many_gone()


def test_a_flow_without_a_steady_boundary_is_not_passed_over() -> None:
    findings = Findings()
    told = {"kind": "plan", "flow": "sqlite-sync/claim", "boundaries": 0, "unsteady": 4, "cases": 0}
    findings.take({**told, "empty": True})
    assert findings.violations == {"order sqlite-sync/claim": ["no boundary of it is steady"]}


@pytest.mark.parametrize(
    ("violation", "left"), [("I6: it hangs", []), ("I3: the effect is there 2 times", ["a case"])]
)
def test_only_what_took_too_long_is_looked_at_twice(
    violation: str, left: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def passed(orders: list[object], lanes: int, findings: Findings, shown: Shown) -> None:
        findings.cases = len(orders)

    monkeypatch.setattr("verification.crash_matrix.command.share_out", passed)
    findings = Findings(violations={"a case": [violation]})
    look_again(findings, Shown(quiet=True))
    assert list(findings.violations) == left


def test_a_recovery_counts_as_killed_only_if_it_was(lane: Lane) -> None:
    killed = lane.run(Case(MODE, "job-tx", EFFECT, "kill", then=8))
    assert (killed.violations, killed.doubly) == ([], True)
    # By then it is through.
    ended = lane.run(Case(MODE, "job-tx", EFFECT, "kill", then=100_000))
    assert (ended.violations, ended.doubly) == ([], False)


def test_who_recovers_after_a_killed_recovery_finds_its_lease_run_out(lane: Lane) -> None:
    # Killed with the lease taken, and the work not done.
    killed = lane.run(Case(MODE, "turns", Boundary("claims_renew", 0, "before"), "kill", then=12))
    assert (killed.violations, killed.doubly) == ([], True)
    assert len(lane._journal.of("recovering")) == 2


def test_a_pooler_that_ends_by_itself_is_brought_back(postgres_server: str) -> None:
    with pooler_of(postgres_server) as pooler:
        [first] = poolers_at(pooler)
        os.kill(first, signal.SIGKILL)
        [second] = until(lambda: set(poolers_at(pooler)) - {first} or None)
        Cluster(pooler, Path()).back()
    assert not alive(second)  # by its number: its configuration is gone, whether it is or not


def poolers_at(url: str) -> list[int]:
    """The processes of PgBouncer that were told to listen there."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            program, *arguments = (process / "cmdline").read_bytes().split(b"\0")
            if program.endswith(b"/pgbouncer"):
                told = Path(arguments[0].decode()).read_text()
                if f"listen_port = {urlsplit(url).port}\n" in told:
                    found.append(int(process.name))
    return found


def test_only_one_that_had_a_lease_has_lost_it(lane: Lane) -> None:
    taken = Boundary("COMMIT of jobs_take", 0, "after")
    late = lane.run(Case(MODE, "job-leased", taken, "pause"))
    assert (late.violations, late.zombies, late.passed_by) == ([], 1, 0)
    # Who asks for a job has none.
    asking = lane.run(Case(MODE, "enqueue", Boundary("BEGIN IMMEDIATE", 0, "before"), "pause"))
    assert (asking.violations, asking.zombies, asking.passed_by) == ([], 0, 1)


def test_a_duplicate_that_is_sent_away_to_the_end_is_found(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = Bench._verb

    async def busy(self: Bench, name: str, *arguments: Any, **options: Any) -> Any:
        reply = await take(self, name, *arguments, **options)
        if name == "receive" and b"duplicate" in reply.body:
            return reply._replace(status=503)
        return reply

    monkeypatch.setattr(Bench, "_verb", busy)
    with pytest.raises(AssertionError, match="I5: evt_1 was answered 503 to the end"):
        lane.plan(MODE, "receive-duplicate")


def test_a_slot_that_nobody_fired_is_found(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    async def moved_on(bench: Bench, place: Place) -> None:
        await FLOWS["cron"].prepare(bench, place)
        place.rows("UPDATE duly_schedules SET slot = slot + 3600000000")

    monkeypatch.setitem(FLOWS, "lost-slot", replace(FLOWS["cron"], prepare=moved_on))
    with pytest.raises(AssertionError, match=r"I2: the slot of .* took no effect"):
        lane.plan(MODE, "lost-slot")


def test_a_message_that_nobody_took_has_not_arrived(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = replace(FLOWS["relay-ok"], prepare=sending("/refused/1"), messages=("/refused/1",))
    monkeypatch.setitem(FLOWS, "refused", replace(refused, dead=("/gone/1",)))
    with pytest.raises(AssertionError, match="I11: the message to /refused/1 was never taken"):
        lane.plan(MODE, "refused")


def test_a_transaction_that_is_left_open_is_found(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[sqlite3.Connection] = []

    async def forgetful(bench: Bench, place: Place) -> None:
        kept.append(sqlite3.connect(place.url.removeprefix("sqlite:///")))
        kept[0].execute("CREATE TABLE mine (a)")
        kept[0].execute("INSERT INTO mine VALUES (1)")

    monkeypatch.setattr("verification.crash_matrix.leaks.PATIENCE", 0.1)
    monkeypatch.setitem(FLOWS, "forgetful", replace(FLOWS["claim"], run=forgetful))
    with pytest.raises(AssertionError, match="I12: when a process was through, sqlite3 has a"):
        lane.plan(MODE, "forgetful")


@pytest.mark.wide
def test_every_statement_is_come_to_by_a_flow_or_left_out_for_a_reason(lane: Lane) -> None:
    there = {file.stem for file in STATEMENTS.glob("*.sql") if not file.stem.startswith("_")}
    reached = {passed.at.name for flow in FLOWS for passed in lane._unharmed(MODE, flow)}
    # A worker that takes its time comes to these as well.
    by_the_clock = {"outbox_unattended"}
    assert there - reached - by_the_clock == set(LEFT_OUT) - by_the_clock


def test_a_case_is_named_by_what_leads_back_to_it() -> None:
    case = Case(MODE, "prune", Boundary("DELETE a/b", 2, "after"), "full", then=7)
    assert case_of(str(case)) == case
    assert case_of(str(case._replace(then=None))).then is None
    with pytest.raises(ValueError, match="earthquake"):
        case_of(f"{MODE}/prune/x/0/before/earthquake")


def test_the_short_form_kills_at_every_statement_and_comes_to_every_fault() -> None:
    passed = [
        Passed(Boundary(f"statement {number}", 0, side), inside=False, driver="psycopg")
        for number in range(300)
        for side in ("before", "after")
    ]
    cases = list(planned("postgres-async", "job-tx", passed, quick=True))
    assert [case.at for case in cases] == [each.at for each in passed]
    killed = [case.at.name for case in cases if case.fault == "kill"]
    assert sorted(killed) == sorted({each.at.name for each in passed})  # each on one of its sides
    assert {case.fault for case in cases} == {
        fault.name for fault in FAULTS.values() if fault.postgres and fault.quick
    }
    pairs = paired(cases, 10, seed=1)
    assert pairs == paired(cases, 10, seed=1) != paired(cases, 10, seed=2)


@pytest.mark.wide
def test_one_case_can_be_run_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    name = str(Case(MODE, "enqueue", Boundary("jobs_insert", 0, "after"), "kill"))
    assert main(["--case", name, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["cases"], found["violations"]) == (1, {})
