"""What a lane found: for a person, and for a program."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.core.json_bytes import Json
    from verification.power_loss.verdicts import Finding

# So many findings are shown.
SHOWN = 12


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one run.

    Args:
        store: the lane.
        setting: how it was set up, in a line.
        states: how many states were looked at.
        recovered: how many different databases duly was let loose on.
        flows: how many states there were in each flow.
        findings: the promises that were broken.
        repeat: the command that looks at one state again, but for ``--state``.
        seconds: how long it took.
    """

    store: str
    setting: str
    states: int
    recovered: int
    flows: Mapping[str, int]
    findings: Sequence[Finding]
    repeat: str | None
    seconds: float

    @property
    def sound(self) -> bool:
        """Whether every promise was kept, and there was something to look at."""
        return not self.findings and self.states > 0

    def text(self) -> str:
        """For a person."""
        lines = [self.setting]
        lines += [f"  {times:7,}  {flow}" for flow, times in self.flows.items()]
        lines.append(
            f"{self.states:,} states of the disk looked at, {self.recovered:,} different databases "
            f"brought back: {self.verdict()} ({self.seconds:.1f} s)"
        )
        for finding in self.shown():
            lines.append(str(finding))
            if self.repeat is not None:
                lines.append(f"  repeat: {self.repeat} --state {finding.state}")
        if len(self.findings) > SHOWN:
            lines.append(f"shown: {len(self.shown())} of {len(self.findings):,}, no problem twice")
        return "\n".join(lines)

    def shown(self) -> list[Finding]:
        """Some of what was found: each problem in the first state that has it."""
        first: dict[str, Finding] = {}
        for finding in self.findings:
            first.setdefault(finding.problem, finding)
        return list(first.values())[:SHOWN]

    def verdict(self) -> str:
        """In a few words."""
        if not self.states:
            return "nothing was looked at"
        return f"{len(self.findings):,} promises broken" if self.findings else "every promise kept"

    def json(self) -> str:
        """For a program."""
        told: Json = {
            "store": self.store,
            "setting": self.setting,
            "states": self.states,
            "recovered": self.recovered,
            "flows": dict(self.flows),
            "violations": len(self.findings),
            "findings": [
                {"state": one.state, "cut": one.cut, "problem": one.problem} for one in self.shown()
            ],
            "repeat": self.repeat,
            "seconds": round(self.seconds, 1),
        }
        return json.dumps(told)
