"""What was found, for people and for machines, and how far a run is."""

from __future__ import annotations

import shlex
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from verification.setups.books import NO_REPLY
from verification.setups.faults import NONE

if TYPE_CHECKING:
    from verification.setups.trial import Order, Outcome

HEAD = ("set-up", "accepted", "copies", "refused", "no reply", "effects", "messages", "faults", "")
GOOD = ("accepted", "duplicate", NO_REPLY)


class Progress:
    """A line that is rewritten on a terminal, a line for each set-up elsewhere."""

    def __init__(self, planned: int, *, quiet: bool) -> None:
        self._planned, self._quiet = planned, quiet
        self._terminal = sys.stderr.isatty()
        self._lock = threading.Lock()
        self._running: list[str] = []
        self._over = self._failed = 0
        self._begun = time.monotonic()

    def begin(self, order: Order) -> None:
        """A set-up has begun."""
        with self._lock:
            self._running.append(order.name)
            if self._terminal:
                self._rewrite()

    def end(self, outcome: Outcome) -> None:
        """A set-up is over."""
        with self._lock:
            self._running.remove(outcome.order.name)
            self._over += 1
            self._failed += bool(outcome.violations)
            if self._terminal:
                self._rewrite()
            elif not self._quiet:
                verdict = "FAILED" if outcome.violations else "passed"
                told = f"{self._over}/{self._planned} {verdict} {outcome.order.name}"
                print(f"setups: {told}, {outcome.seconds:.0f} s", file=sys.stderr, flush=True)

    def _rewrite(self) -> None:
        if self._quiet:
            return
        told = f"setups: {self._over} of {self._planned}, {self._failed} failed, {self.seconds:.0f}"
        line = f"{told} s: {', '.join(self._running)}"[:118]
        print(f"\r{line:<118}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the line on the terminal as it is."""
        if self._terminal and not self._quiet:
            print(file=sys.stderr)

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._begun


def as_json(outcomes: list[Outcome], seconds: float) -> dict[str, Any]:
    """Everything for a machine."""
    return {
        "passed": sum(not one.violations for one in outcomes),
        "failed": sum(bool(one.violations) for one in outcomes),
        "seconds": round(seconds, 1),
        "setups": [
            {
                "setup": one.order.setup.name,
                "fault": one.order.fault,
                "answers": one.answers,
                "events": one.events,
                "effects": one.entries,
                "messages": one.messages,
                "struck": one.struck,
                "seconds": round(one.seconds, 1),
                "violations": one.violations,
            }
            for one in outcomes
        ],
    }


def row_of(outcome: Outcome) -> tuple[str, ...]:
    """One line of the table."""
    answers = outcome.answers
    refused = sum(count for told, count in answers.items() if told not in GOOD)
    counted = (
        answers.get("accepted", 0), answers.get("duplicate", 0), refused, answers.get(NO_REPLY, 0),
        outcome.entries, outcome.messages, outcome.struck,
    )  # fmt: skip
    verdict = "FAILED" if outcome.violations else "passed"
    return (outcome.order.name, *(str(number) for number in counted), verdict)


def repro_of(order: Order) -> str:
    """The command that runs one set-up again."""
    fault = "" if order.fault == NONE else f" --faults {order.fault}"
    more = f"{fault} --seconds {order.seconds:g} --seed {order.seed}"
    return f"python -m verification.setups {shlex.quote(order.setup.name)}{more}"


def report(outcomes: list[Outcome], seconds: float) -> None:
    """Everything for people."""
    rows = [HEAD, *(row_of(one) for one in outcomes)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEAD))]
    print()
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print(f"{row[0]:<{widths[0]}}  {'  '.join(cells)}".rstrip())
    for one in outcomes:
        if one.violations:
            found = "".join(f"\n  {violation}" for violation in one.violations)
            print(f"\nVIOLATED: {one.order.name}{found}\n  repro: {repro_of(one.order)}")
    failed = sum(bool(one.violations) for one in outcomes)
    print(f"\n{len(outcomes) - failed} passed, {failed} failed in {seconds:.0f} s")
