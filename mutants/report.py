"""What is said of planted bugs: a line for each as it comes, and the count."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mutants.shelf import Mutant
    from mutants.trials import Verdict


class Shown:
    """Each verdict as it comes; on the side where the answer is for a machine."""

    def __init__(self, *, aside: bool) -> None:
        self._stream = sys.stderr if aside else sys.stdout
        self._begun = time.monotonic()

    def tell(self, verdict: Verdict) -> None:
        """One line, and more where something is wrong."""
        shown = verdict.judged if verdict.good else verdict.judged.upper()
        line = f"{shown:<13}{verdict.seconds:6.1f} s  {verdict.name:<32}{verdict.command[:80]}"
        more = "".join(f"\n    {text}" for text in verdict.told.splitlines())
        print(line.rstrip() + more, file=self._stream, flush=True)

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._begun


def listed(mutants: Sequence[Mutant]) -> str:
    """The planted bugs, for people."""
    return "\n\n".join(
        f"{one.name}\n  {one.defect}\n  {one.harm}\n"
        f"  caught by: {one.command}\n  saying:    {one.phrase}"
        for one in mutants
    )


def document(verdicts: Sequence[Verdict], seconds: float) -> dict[str, Any]:
    """Everything for a machine."""
    planted = [one for one in verdicts if one.judged not in ("green", "red")]
    return {
        "caught": sum(one.good for one in planted),
        "total": len(planted),
        "seconds": round(seconds, 1),
        "verdicts": [one._asdict() for one in verdicts],
    }
