"""The table of states is the truth: every statement moves exactly as it says, on every store."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import duly
from duly.core.keys import key_of
from duly.core.onestep import finish
from duly.core.states import CLAIM_MOVES, ClaimState
from duly.ledger.claims import Terms, claim_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.core.session import Value
    from duly.types import Store
    from tests.conftest import HandClock

HOUR = 3_600_000_000
OURS, THEIRS = b"o" * 16, b"t" * 16
WAIT = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Situation:
    """A row before a statement runs: its state, whose token it has, whether its time is over."""

    state: ClaimState | None
    token: bytes
    over: bool


SITUATIONS = [
    Situation(state, token, over)
    for state, token, over in itertools.product((None, *ClaimState), (OURS, THEIRS), (False, True))
]


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, clock: HandClock) -> Iterator[Store]:
    with duly.store(request.getfixturevalue(f"{request.param}_url"), clock=clock) as opened:
        yield opened


def run(store: Store, statement: str, values: dict[str, Value]) -> list[object]:
    """One statement in a transaction of its own."""
    rows = store.sync_runner.run(lambda session: session.rows(statement, **values), wait=WAIT)
    return list(finish(rows))


def state_of(store: Store, name: dict[str, Value]) -> ClaimState | None:
    """The state a row is in, as the ledger itself reads it."""
    rows = run(store, "claims_read", {**name, "token": OURS})
    if not rows:
        return None
    return ClaimState.HELD if rows[0]["held"] else ClaimState.DONE  # type: ignore[index]  # a row


@pytest.mark.promise("I7")
@pytest.mark.parametrize("situation", SITUATIONS, ids=str)
@pytest.mark.parametrize("statement", sorted({move.statement for move in CLAIM_MOVES}))
@pytest.mark.parametrize("wanted", list(ClaimState), ids=str)
def test_a_statement_moves_a_claim_as_the_table_says_and_in_no_other_way(
    store: Store,
    scope: str,
    clock: HandClock,
    situation: Situation,
    statement: str,
    wanted: ClaimState,
) -> None:
    name = prepared(store, scope, clock, situation)
    values = values_for(scope, wanted)
    if statement == "claims_renew":
        values["lease"] = HOUR
    moved = run(store, statement, values)
    after = state_of(store, name)

    allowed = may_move(situation, statement, wanted)
    assert bool(moved) == allowed
    if not allowed:
        assert after == situation.state
        return
    assert (situation.state, after) in {
        (move.before, move.after) for move in CLAIM_MOVES if move.statement == statement
    }


def test_every_move_of_the_table_was_seen() -> None:
    seen = {
        (situation.state, statement)
        for situation in SITUATIONS
        for statement in {move.statement for move in CLAIM_MOVES}
        for wanted in ClaimState
        if may_move(situation, statement, wanted)
    }
    assert seen == {(move.before, move.statement) for move in CLAIM_MOVES}


def prepared(store: Store, scope: str, clock: HandClock, situation: Situation) -> dict[str, Value]:
    """Make the row of a situation and return its name."""
    key = key_of(scope, "evt_1")
    if situation.state is not None:
        lease = HOUR if situation.state is ClaimState.HELD else None
        terms = Terms(situation.token, HOUR, lease)
        assert run(store, "claims_insert", claim_values(key, terms, None))
        if situation.over:
            clock.advance(timedelta(hours=1))
    return {"scope": key.scope, "digest": key.digest}


def values_for(scope: str, wanted: ClaimState) -> dict[str, Value]:
    """Parameters enough for every statement; each takes the ones it names."""
    lease = HOUR if wanted is ClaimState.HELD else None
    values = claim_values(key_of(scope, "evt_1"), Terms(OURS, HOUR, lease), None)
    return {**values, "epoch": 1, "result": None}


def may_move(situation: Situation, statement: str, wanted: ClaimState) -> bool:
    """What the table and its guards allow."""
    if statement == "claims_insert":
        return situation.state is None
    if situation.state is None:
        return False
    if statement == "claims_retake":
        return situation.over
    if situation.token != OURS:
        return False
    if statement == "claims_release":
        return situation.state is wanted
    return situation.state is ClaimState.HELD
