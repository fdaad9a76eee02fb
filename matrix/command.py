"""``python -m matrix``: plans the cases, shares them out among lanes, and says what was found."""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from matrix.cases import MODES, case_of
from matrix.faults import FAULTS
from matrix.flows import FLOWS

SHOWN = 20
# Seconds for a lane to end before it is told once more.
HEARING = 2.0
INTERRUPTED = 130
FEW = 3
# Of a hundred cases, so many may be of a boundary that was there in one run and not in the next;
# and so many of a hundred boundaries may be left out of the plan, because only one run had them.
UNSTEADY, LEFT_OUT = 1, 5
# What a busy machine may bring about: somebody took too long. Nothing else is looked at twice.
OF_TIME = ("I6:", "vacuous:")
EXAMPLES = """\
examples:
  python -m matrix --quick                     what CI runs
  python -m matrix                             every boundary, fault and store
  python -m matrix --mode sqlite-sync --flow job-tx --flow claim
  python -m matrix --case CASE                 one case again, as a failure names it"""


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


def share_out(orders: list[dict[str, Any]], lanes: int, findings: Findings, shown: Shown) -> None:
    """Let every lane take the next order until there is none; or end them all where told to."""
    queue: SimpleQueue[dict[str, Any]] = SimpleQueue()
    for order in orders:
        queue.put(order)
    at_work: set[subprocess.Popen[str]] = set()
    driving = (queue, at_work, findings, shown)
    # Daemons: whoever ends this early does not wait for their orders.
    threads = [threading.Thread(target=drive, args=driving, daemon=True) for _ in range(lanes)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        findings.cut_short = True
        for lane in list(at_work):
            end(lane)
        raise


def end(lane: subprocess.Popen[str]) -> None:
    """Tell a lane to end until it does: Python drops an exit that comes in one of its callbacks."""
    while lane.poll() is None:
        lane.terminate()
        with suppress(subprocess.TimeoutExpired):
            lane.wait(HEARING)


def drive(
    queue: SimpleQueue[dict[str, Any]],
    at_work: set[subprocess.Popen[str]],
    findings: Findings,
    shown: Shown,
) -> None:
    """One lane, from its first order to its last; a new process where one broke."""
    lane: subprocess.Popen[str] | None = None
    while not findings.cut_short:
        try:
            order = queue.get_nowait()
        except Empty:
            break
        lane = lane or started()
        at_work.add(lane)
        if not obeyed(lane, order, findings, shown):
            lane.kill()
            at_work.discard(lane)
            lane = None
    if lane is not None:
        at_work.discard(lane)
        lane.communicate()


def started() -> subprocess.Popen[str]:
    """A process that carries out orders."""
    return subprocess.Popen(
        [sys.executable, "-m", "matrix.units"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for whoever drives it, and that one ends the lanes
    )


def obeyed(
    lane: subprocess.Popen[str], order: dict[str, Any], findings: Findings, shown: Shown
) -> bool:
    """Whether the lane carried out the order to its end."""
    assert lane.stdin is not None
    assert lane.stdout is not None
    lane.stdin.write(json.dumps(order) + "\n")
    lane.stdin.flush()
    for line in lane.stdout:
        told = json.loads(line)
        if told["kind"] == "done":
            return True
        findings.take(told)
        shown.tell(findings)
    if not findings.cut_short:
        findings.fail(order, f"the lane broke with {lane.wait()}: see what it printed above")
    return False


class Shown:
    """Progress: a line that is rewritten on a terminal, a line every few seconds elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        self._terminal, self._quiet = sys.stderr.isatty(), quiet
        self._begun = self._last = time.monotonic()

    def tell(self, findings: Findings) -> None:
        """Say how far it is, not too often."""
        now = time.monotonic()
        if self._quiet or now - self._last < (0.2 if self._terminal else 15):
            return
        self._last = now
        line = (
            f"matrix: {findings.cases} of {findings.planned} planned so far,"
            f" {len(findings.violations)} violations, {now - self._begun:.0f} s"
        )
        print(f"\r{line}" if self._terminal else line, end="" if self._terminal else "\n",
              file=sys.stderr, flush=True)  # fmt: skip

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._begun


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m matrix",
        description="Strike every flow at every statement boundary with every fault.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="one fault at each boundary")
    parser.add_argument("--mode", action="append", choices=MODES, help="only these stores")
    parser.add_argument("--flow", action="append", choices=sorted(FLOWS), help="only these flows")
    parser.add_argument(
        "--fault", action="append", choices=sorted(FAULTS), help="only these faults"
    )
    parser.add_argument("--plan", action="store_true", help="only say how many cases there are")
    parser.add_argument(
        "--case", action="append", type=known_case, help="only this case, by its name"
    )
    parser.add_argument(
        "--pairs",
        type=int,
        default=0,
        help="for each flow and store, so many kills whose recovery is killed, too",
    )
    parser.add_argument("--seed", type=int, default=1, help="which pairs (1)")
    parser.add_argument("--lanes", type=int, default=2, help="how many at once (2)")
    parser.add_argument("--json", action="store_true", help="the findings as JSON, last")
    return parser.parse_args(arguments)


def known_case(name: str) -> str:
    """The name of a case that there can be."""
    try:
        case = case_of(name)
    except ValueError:
        form = "STORE/FLOW/STATEMENT/NUMBER/before or after/FAULT"
        raise argparse.ArgumentTypeError(f"{name!r} is no case: {form}") from None
    if case.mode not in MODES or case.flow not in FLOWS:
        raise argparse.ArgumentTypeError(f"there is no {case.mode}/{case.flow}: see --help")
    return name


def ordered(asked: argparse.Namespace) -> list[dict[str, Any]]:
    """What the lanes have to do, the longest first."""
    if asked.case:
        return [{"case": name} for name in asked.case]
    modes = asked.mode or MODES
    flows = asked.flow or list(FLOWS)
    return [
        {
            "mode": mode,
            "flow": flow,
            "quick": asked.quick,
            "plan": asked.plan,
            "faults": asked.fault,
            "pairs": asked.pairs,
            "seed": asked.seed,
        }
        for mode in reversed(modes)
        for flow in flows
        if asked.mode or not asked.quick or mode in FLOWS[flow].quick_modes
    ]


def main(arguments: list[str] | None = None) -> int:
    """Run, report, and return the exit code."""
    asked = parsed(arguments)
    findings, shown = Findings(), Shown(quiet=asked.json)
    try:
        share_out(ordered(asked), asked.lanes, findings, shown)
        if asked.quick:
            look_again(findings, shown)
    except KeyboardInterrupt:
        print("\nmatrix: ended before its time; so far:", file=sys.stderr)
    if asked.json:
        print(json.dumps(as_json(findings, shown.seconds)))
    else:
        report(findings, shown.seconds)
    if findings.cut_short:
        return INTERRUPTED
    nothing_done = not findings.cases and not asked.plan
    return 1 if findings.violations or findings.too_many_gone() or nothing_done else 0


def look_again(findings: Findings, shown: Shown) -> None:
    """In the short form, a few that took too long are looked at once more (decisions/0031)."""
    names = [name for name in findings.violations if not name.startswith("order ")]
    if not 0 < len(findings.violations) <= FEW or len(names) < len(findings.violations):
        return
    told = [one for violations in findings.violations.values() for one in violations]
    if not all(one.startswith(OF_TIME) for one in told):
        return
    second = Findings()
    share_out([{"case": name} for name in names], 1, second, shown)
    if not second.violations and second.cases == len(names):
        for name in names:
            print(f"UNSTEADY: {name} was violated once, and not alone: mend it", file=sys.stderr)
        findings.violations.clear()


def as_json(findings: Findings, seconds: float) -> dict[str, Any]:
    """Everything for a machine."""
    return {
        "cases": findings.cases,
        "boundaries": findings.boundaries,
        "pairs": findings.pairs,
        "planned": findings.planned,
        "left_out": findings.left_out,
        "gone": findings.gone,
        "seconds": round(seconds, 1),
        "seconds_by_fault": {name: round(spent, 1) for name, spent in findings.seconds.items()},
        "zombies": findings.zombies,
        "refused": findings.refused,
        "passed_by": findings.passed_by,
        "waited_for": findings.waited_for,
        "modes": findings.modes,
        "flows": findings.flows,
        "faults": findings.faults,
        "violations": findings.violations,
    }


def violated(case: str, violations: list[str]) -> str:
    """What was found in one case, and how to see it again."""
    found = "".join(f"\n  {violation}" for violation in violations)
    return f"\nVIOLATED: {case}{found}\n  repro: python -m matrix --case {shlex.quote(case)}"


def report(findings: Findings, seconds: float) -> None:
    """Everything for people."""
    print()
    for title, counted in (("store", findings.modes), ("flow", findings.flows),
                           ("fault", findings.faults)):  # fmt: skip
        print(f"cases by {title}:")
        for name, count in sorted(counted.items()):
            print(f"  {name:<24}{count:>7}")
    for case, violations in list(findings.violations.items())[:SHOWN]:
        print(violated(case, violations))
    if len(findings.violations) > SHOWN:
        print(f"\n… and {len(findings.violations) - SHOWN} more")
    for case in findings.gone:
        print(f"\nnot come to again, and not struck: {case}")
    if findings.left_out or findings.gone:
        print(
            f"\nBoundaries that come and go from run to run: {findings.left_out} left out of the "
            f"plan, {len(findings.gone)} of the plan not struck"
            f"{', which is too many' if findings.too_many_gone() else ''}"
        )
    at = f" at {findings.boundaries} boundaries" if findings.boundaries else ""
    of = f" of {findings.planned}" if findings.planned not in (0, findings.cases) else ""
    print(
        f"\n{findings.cases} cases{of}{at} in {seconds:.0f} s: {len(findings.violations)}"
        f" violations. Of those that were stopped, {findings.zombies} lost a lease,"
        f" {findings.passed_by} had none while others went on, and {findings.waited_for} kept"
        f" others waiting; {findings.refused} late ends were tried and refused."
        f" {findings.pairs} recoveries were killed, too"
    )
    if not findings.cases and not findings.planned:
        print("no fault fits there: see the table in docs/proof.md")
