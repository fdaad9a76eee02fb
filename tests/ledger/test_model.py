"""Every store answers as a few lines of Python do, whatever is asked of it and in which order.

Hypothesis invents the operations and shrinks what differs. DULY_LONG=1 looks much longer.
"""

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from duly.core import json_bytes as stored_results
from duly.core.json_bytes import Json
from tests.ledger.model import Claim, Name
from tests.ledger.player import BY_DIGEST, Holder, Player, Wilful
from tests.ledger.steps import (
    MICROSECOND,
    Dedup,
    Many,
    Newer,
    Prune,
    Step,
    amounts,
    bodies,
    dedups,
    leases,
    limits,
    manys,
    names,
    newers,
    programs,
    results,
    ttls,
)
from tests.support.arenas import Arena, Row, memory_arena, postgres_arena, sqlite_arena

LONG = os.environ.get("DULY_LONG") == "1"
SETTINGS = settings(
    max_examples=1000 if LONG else 12,
    stateful_step_count=60 if LONG else 30,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)


class LedgerMachine(RuleBasedStateMachine):
    """The store of an arena and the model, given the same operations."""

    arena: Arena

    def __init__(self) -> None:
        super().__init__()
        self.player = Player(self.arena)
        self.epochs: dict[Name, int] = {}
        self.claimed: dict[bytes, set[tuple[Name, int]]] = {}

    def holder(self, choice: int) -> Holder:
        return self.player.holders[choice % len(self.player.holders)]

    @initialize()
    def forget_the_last_example(self) -> None:
        self.arena.clear()

    @rule(step=st.one_of(dedups, manys, newers, st.builds(Prune, limits)))
    def in_a_transaction_of_dulys_own(self, step: Dedup | Many | Newer | Prune) -> None:
        self.player.play(step, self.arena.store)

    @rule(program=programs, committed=st.booleans())
    def in_a_transaction_of_the_users(self, program: list[Step], committed: bool) -> None:
        self.player.transaction(program, committed=committed)

    @rule(name=names, ttl=ttls, lease=leases, body=bodies)
    def take(self, name: Name, ttl: timedelta | None, lease: timedelta, body: bytes | None) -> None:
        self.player.take(name, self.player.wish(ttl, lease, body))

    @precondition(lambda self: self.player.holders)
    @rule(choice=st.integers(0, 3))
    def renew(self, choice: int) -> None:
        self.player.renew(self.holder(choice))

    @precondition(lambda self: self.player.holders)
    @rule(choice=st.integers(0, 3), result=results)
    def mark(self, choice: int, result: Json) -> None:
        self.player.mark(self.holder(choice), result)

    @precondition(lambda self: self.player.holders)
    @rule(choice=st.integers(0, 3), failed=st.booleans())
    def leave(self, choice: int, failed: bool) -> None:
        self.player.leave(self.holder(choice), Wilful() if failed else None)

    @precondition(lambda self: self.player.holders)
    @rule(choice=st.integers(0, 3), lease=leases, ttl=ttls)
    def overtake(self, choice: int, lease: timedelta, ttl: timedelta | None) -> None:
        """Let a lease run out and take it; its holder, who knows nothing of it, is late now."""
        name = self.holder(choice).name
        claim = self.player.model.claims.get(name)
        if claim is not None and claim.lease_until is not None:
            self.arena.clock.moment = max(self.arena.clock(), claim.lease_until)
        self.player.take(name, self.player.wish(ttl, lease))

    @precondition(lambda self: self.player.holders)
    @rule(choice=st.integers(0, 3))
    def crash(self, choice: int) -> None:
        self.player.holders.remove(self.holder(choice))

    @rule(by=amounts)
    def time_passes(self, by: timedelta) -> None:
        self.arena.clock.advance(by)

    @rule(choice=st.integers(0, 11), early=st.booleans())
    def time_passes_to_the_end_of_something(self, choice: int, early: bool) -> None:
        now, claims = self.arena.clock(), self.player.model.claims.values()
        ends = {claim.expires_at for claim in claims} | {claim.lease_until for claim in claims}
        later = sorted(end for end in ends if end is not None and end > now)
        if later:
            end = later[choice % len(later)]
            self.arena.clock.advance(end - now - (MICROSECOND if early else 0 * MICROSECOND))

    @invariant()
    def the_table_is_what_the_model_says(self) -> None:
        rows = {BY_DIGEST[row.digest]: row for row in self.arena.claims()}
        expected = self.player.model.claims
        assert rows.keys() == expected.keys()
        for name, row in rows.items():
            assert seen(row) == seen_of(expected[name]), f"{name} differs"

    @invariant()
    def epochs_only_grow_and_tokens_never_repeat(self) -> None:
        for name in self.player.pruned:
            self.epochs.pop(name, None)
        self.player.pruned.clear()
        fresh: dict[bytes, set[tuple[Name, int]]] = {}
        for row in self.arena.claims():
            name = BY_DIGEST[row.digest]
            assert row.epoch >= self.epochs.get(name, 0), f"the epoch of {name} shrank"
            self.epochs[name] = row.epoch
            if row.token is not None:
                fresh.setdefault(row.token, set()).add((name, row.epoch))
        for token, holds in fresh.items():
            # A batch shares one token; no later claim of any key may ever show it again.
            assert holds <= self.claimed.setdefault(token, holds), "a token was given out twice"


def seen(row: Row) -> tuple[object, ...]:
    """What a row says, for comparison."""
    taken = row.token is not None
    ends = (row.first_seen, row.expires_at, row.lease_until)
    return (row.state, row.epoch, taken, *ends, row.result)


def seen_of(claim: Claim) -> tuple[object, ...]:
    """What the row of a claim should say."""
    state = "done" if claim.lease_until is None else "held"
    result = None if claim.result is None else stored_results.encode(claim.result.value)
    ends = (claim.first_seen, claim.expires_at, claim.lease_until)
    return (state, claim.epoch, claim.caller is not None, *ends, result)


@pytest.fixture(params=["sqlite", "sqlite-aio", "postgres", "postgres-aio", "memory"])
def arena(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Arena]:
    kind, _, awaited = request.param.partition("-")
    if kind == "postgres":
        url = request.getfixturevalue("own_postgres_url")
        made = postgres_arena(url, awaited=bool(awaited))
    elif kind == "sqlite":
        made = sqlite_arena(tmp_path / "duly.db", awaited=bool(awaited))
    else:
        made = memory_arena()
    yield made
    made.close()


def test_no_sequence_of_operations_tells_a_store_from_the_model(arena: Arena) -> None:
    machine = type("Machine", (LedgerMachine,), {"arena": arena})
    run_state_machine_as_test(machine, settings=SETTINGS)
