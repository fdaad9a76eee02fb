"""The crash matrix finds what is broken, names it, and is not content with a fault that missed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from matrix.bench import Delivery
from matrix.cases import Case, case_of, paired, planned
from matrix.command import Findings, main
from matrix.faults import FAULTS
from matrix.flows import FLOWS, delivering
from matrix.lane import Lane
from matrix.places import SqlitePlace
from matrix.shop import Blocking
from matrix.traps import Boundary, Passed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODE = "sqlite-sync"
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


def test_the_recovery_may_be_killed_as_well(lane: Lane) -> None:
    assert lane.run(Case(MODE, "job-tx", EFFECT, "kill", then=8)).violations == []


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


def test_one_case_can_be_run_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    name = str(Case(MODE, "enqueue", Boundary("jobs_insert", 0, "after"), "kill"))
    assert main(["--case", name, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["cases"], found["violations"]) == (1, {})
