"""What was found, for people and for machines."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from verification.crash_matrix.findings import Findings

SHOWN = 20


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
    again = f"python -m verification.crash_matrix --case {shlex.quote(case)}"
    return f"\nVIOLATED: {case}{found}\n  repro: {again}"


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
