"""``python -m verification.crash_matrix``: plans the cases, runs them, and reports."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from verification.crash_matrix.cases import MODES, case_of
from verification.crash_matrix.driving import Shown, share_out
from verification.crash_matrix.faults import FAULTS
from verification.crash_matrix.findings import Findings
from verification.crash_matrix.flows import FLOWS
from verification.crash_matrix.report import as_json, report

INTERRUPTED = 130
FEW = 3
# What a busy machine may bring about: somebody took too long. Nothing else is looked at twice.
OF_TIME = ("I6:", "vacuous:")
EXAMPLES = """\
examples:
  python -m verification.crash_matrix --quick                     what CI runs
  python -m verification.crash_matrix                             every boundary, fault and store
  python -m verification.crash_matrix --mode sqlite-sync --flow job-tx --flow claim
  python -m verification.crash_matrix --case CASE  one case again, as a failure names it"""


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m verification.crash_matrix",
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
    """In the short form, a few that took too long are looked at once more (docs/decisions/0031)."""
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
