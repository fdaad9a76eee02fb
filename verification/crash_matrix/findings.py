"""What the lanes have told so far."""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from verification.crash_matrix.cases import case_of
from verification.crash_matrix.report import violated

# Of a hundred cases, so many may be of a boundary that was there in one run and not in the next;
# and so many of a hundred boundaries may be left out of the plan, because only one run had them.
UNSTEADY, LEFT_OUT = 1, 5


@dataclass
class Findings:
    """What the lanes have told so far."""

    cases: int = 0
    boundaries: int = 0
    pairs: int = 0
    planned: int = 0
    zombies: int = 0
    passed_by: int = 0
    waited_for: int = 0
    refused: int = 0
    # Boundaries that came and went from one unharmed run to the next: left out of the plan, and
    # found gone when their case was run.
    left_out: int = 0
    gone: list[str] = field(default_factory=list)
    # How long a fault's cases took, together.
    seconds: Counter[str] = field(default_factory=Counter)
    flows: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    modes: Counter[str] = field(default_factory=Counter)
    violations: dict[str, list[str]] = field(default_factory=dict)
    cut_short: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, told: dict[str, Any]) -> None:
        """One line of a lane."""
        with self.lock:
            if told["kind"] == "plan":
                self.boundaries += told["boundaries"]
                self.left_out += told["unsteady"]
                self.planned += told["cases"]
                if told["empty"]:
                    self.violations[f"order {told['flow']}"] = ["no boundary of it is steady"]
            elif told["kind"] == "case":
                self._take_case(told)

    def _take_case(self, told: dict[str, Any]) -> None:
        case = case_of(told["case"])
        if told["unsteady"]:
            self.gone.append(told["case"])
            return
        self.cases += 1
        self.seconds[case.fault] += told["seconds"]
        self.pairs += told["doubly"]
        self.zombies += told["zombies"]
        self.passed_by += told["passed_by"]
        self.waited_for += told["waited_for"]
        self.refused += told["refused"]
        self.flows[case.flow] += 1
        self.faults[case.fault] += 1
        self.modes[case.mode] += 1
        if told["violations"]:
            self.violations[told["case"]] = told["violations"]
            print(violated(told["case"], told["violations"]), file=sys.stderr, flush=True)

    def too_many_gone(self) -> bool:
        """Whether so many boundaries came and went that the matrix has holes."""
        gone = len(self.gone) * 100 > UNSTEADY * (self.cases + len(self.gone))
        return gone or self.left_out * 100 > LEFT_OUT * (self.boundaries + self.left_out)

    def fail(self, order: object, problem: str) -> None:
        """A lane that could not carry out its order."""
        with self.lock:
            self.violations[f"order {json.dumps(order)}"] = [problem]
