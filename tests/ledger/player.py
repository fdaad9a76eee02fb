"""Plays a step on a store and on the model, and insists that nobody could tell them apart."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import duly
from duly.core.json_bytes import Json
from duly.core.keys import key_of
from tests.ledger.model import Ledger, Name, Stored, Wish
from tests.ledger.steps import (
    ALL_NAMES,
    Advance,
    Dedup,
    Many,
    MarkHere,
    Nested,
    Newer,
    OnceHere,
    Prune,
    Step,
)
from tests.support.arenas import Arena

BY_DIGEST = {key_of(scope, key).digest: (scope, key) for scope, key in ALL_NAMES}


class Wilful(Exception):
    """The body of a block failed."""


@dataclass
class Holder:
    """A turn under a lease that somebody is in, and what the model knows of it."""

    turns: Any
    turn: Any
    name: Name
    wish: Wish
    result: Stored | None = None
    marked: bool = False
    # Marked and committed by duly itself: nothing can be added.
    over: bool = False

    def refuse_over(self) -> None:
        """What a turn that is over answers."""
        if self.over:
            raise duly.errors.UsageError("this turn is over")


def outcome(call: Callable[[], object]) -> object:
    """What came back, or what was raised and how long it said to wait."""
    try:
        return call()
    except duly.errors.DulyError as problem:
        return type(problem), getattr(problem, "retry_after", None)


def agree(real: Callable[[], object], expected: Callable[[], object]) -> object:
    """Do it in both worlds; return what both said."""
    said, wanted = outcome(real), outcome(expected)
    assert said == wanted, f"the store said {said}, the model {wanted}"
    return said


class Player:
    """Two worlds: the store of an arena, and the model."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.model = Ledger()
        self.holders: list[Holder] = []
        self.pruned: set[Name] = set()
        self._callers = 0

    def wish(
        self, ttl: timedelta | None, lease: timedelta | None = None, body: bytes | None = None
    ) -> Wish:
        """What the next caller asks for."""
        self._callers += 1
        return Wish(self._callers, ttl, lease, body)

    def play(self, step: Step, target: object) -> None:
        """Do one thing in both worlds; ``target`` is the store or the user's connection."""
        match step:
            case Dedup():
                self._dedup(step, target)
            case Many():
                self._many(step, target)
            case Newer():
                self._newer(step, target)
            case Prune(limit):
                self._prune(limit, target)
            case Advance(by):
                self.arena.clock.advance(by)
            case MarkHere() | Nested() | OnceHere():
                self._play_joined(step)

    def _play_joined(self, step: MarkHere | Nested | OnceHere) -> None:
        """What there is in a transaction of the user's only."""
        match step:
            case MarkHere(choice, result):
                self._mark_here(choice, result)
            case Nested():
                self._nested(step)
            case OnceHere():
                self._once_here(step)

    def transaction(self, program: Sequence[Step], *, committed: bool) -> None:
        """Play a program in one transaction of the user's."""
        before = self.model.copy()
        self.arena.execute("BEGIN")
        try:
            for step in program:
                self.play(step, self.arena.connection)
        except BaseException:
            self.arena.reconnect()  # its locks would make the next example wait for ever
            raise
        self.arena.execute("COMMIT" if committed else "ROLLBACK")
        if not committed:
            self.model.restore(before)

    def _verb(self, verb: str, target: object, *args: object, **options: object) -> Any:
        """Call one of duly's verbs; a joined connection is told the time with each call."""
        if target is self.arena.connection:
            options["clock"] = self.arena.clock
        return self.arena.call(getattr(self.arena.verbs, verb), target, *args, **options)

    def _dedup(self, step: Dedup, target: object) -> None:
        wish = self.wish(step.ttl, body=step.body)
        agree(
            lambda: self._verb("dedup", target, *step.name, step.ttl, body=step.body),
            lambda: self.model.claim(step.name, wish, self.arena.clock()),
        )

    def _many(self, step: Many, target: object) -> None:
        wish, names = self.wish(step.ttl), [(step.scope, key) for key in step.keys]
        said = outcome(lambda: self._verb("dedup_many", target, step.scope, step.keys, step.ttl))
        wanted = outcome(lambda: self.model.claim_many(names, wish, self.arena.clock()))
        if isinstance(said, tuple) and isinstance(wanted, tuple):
            said, wanted = (
                said[0],
                wanted[0],
            )  # which of two leases is met first is nobody's promise
        assert said == wanted, f"the store said {said}, the model {wanted}"

    def _newer(self, step: Newer, target: object) -> None:
        scope, resource = step.name
        agree(
            lambda: self._verb("newer", target, resource, step.version, step.tie, scope=scope),
            lambda: self.model.newer(step.name, step.version, step.tie),
        )

    def _prune(self, limit: int, target: object) -> None:
        reader = target if target is self.arena.connection else None
        count = self._verb("prune", target, limit=limit)
        left = {BY_DIGEST[row.digest] for row in self.arena.claims(reader)}
        gone = self.model.claims.keys() - left
        assert count == len(gone)
        self.model.forget(gone, limit, self.arena.clock())
        self.pruned |= gone

    def _mark_here(self, choice: int, result: Json) -> None:
        if self.holders:
            self.mark(self.holders[choice % len(self.holders)], result, tx=self.arena.connection)

    def _nested(self, step: Nested) -> None:
        before = self.model.copy()
        self.arena.execute("SAVEPOINT users_own")
        for inner in step.steps:
            self.play(inner, self.arena.connection)
        if not step.kept:
            self.arena.execute("ROLLBACK TO users_own")
            self.model.restore(before)
        self.arena.execute("RELEASE users_own")

    def _once_here(self, step: OnceHere) -> None:
        arena, before = self.arena, self.model.copy()
        wish = self.wish(step.ttl, body=step.body)
        turns = arena.verbs.once(
            arena.connection, *step.name, step.ttl, body=step.body, clock=arena.clock
        )
        turn, answer = self._enter(turns, step.name, wish)
        if turn is None:
            return
        for inner in step.steps:
            self.play(inner, arena.connection)
        if step.ending == "error":
            arena.leave(turns, Wilful())
            self.model.restore(before)
            return
        if step.ending == "result" and isinstance(answer, duly.First):
            turn.result = step.result
            self.model.keep(step.name, wish.caller, step.result)
        arena.leave(turns)

    def take(self, name: Name, wish: Wish) -> None:
        """Take a lease, or be told that it is held or done."""
        arena = self.arena
        turns = arena.verbs.once(arena.store, *name, wish.ttl, lease=wish.lease, body=wish.body)
        turn, answer = self._enter(turns, name, wish)
        if isinstance(answer, duly.First):
            assert turn.epoch == answer.epoch
            self.holders.append(Holder(turns, turn, name, wish))
        elif turn is not None:
            arena.leave(turns)

    def _enter(self, turns: Any, name: Name, wish: Wish) -> tuple[Any, object]:
        """The turn and the answer of a block just entered; no turn where it was held."""
        turn: Any = None

        def enter() -> object:
            nonlocal turn
            turn = self.arena.enter(turns)
            return turn.answer

        answer = agree(enter, lambda: self.model.claim(name, wish, self.arena.clock()))
        return turn, answer

    def renew(self, holder: Holder) -> None:
        """Extend a lease, or learn that it was lost."""
        lease = holder.wish.lease
        assert lease is not None

        def renewed() -> None:
            holder.refuse_over()
            self.model.renew(holder.name, holder.wish.caller, lease, self.arena.clock())

        agree(lambda: self.arena.call(holder.turn.renew), renewed)

    def mark(self, holder: Holder, result: Json, tx: object = None) -> None:
        """Mark a turn done, or learn that it was lost."""

        def marked() -> None:
            holder.refuse_over()
            holder.result = Stored(result)
            self.model.mark(holder.name, holder.wish, holder.result, self.arena.clock())

        said = agree(lambda: self.arena.call(holder.turn.mark, result, tx=tx), marked)
        holder.marked = holder.marked or said is None
        holder.over = holder.over or (said is None and tx is None)

    def leave(self, holder: Holder, error: BaseException | None) -> None:
        """Leave the block of a leased turn."""
        self.holders.remove(holder)
        agree(
            lambda: self.arena.leave(holder.turns, error),
            lambda: self._left(holder, failed=error is not None),
        )

    def _left(self, holder: Holder, *, failed: bool) -> None:
        now = self.arena.clock()
        if failed:
            self.model.release(holder.name, holder.wish.caller, now)
        elif not holder.marked:
            self.model.mark(holder.name, holder.wish, holder.result, now)
