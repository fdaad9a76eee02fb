"""What is said of planted bugs: a line for each as it comes, and the count."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from verification.mutation.shelf import Mutant
    from verification.mutation.trials import Verdict

# Columns for a name, and for the command behind it.
WIDEST, ROOM = 42, 90


class Shown:
    """Each verdict as it comes; on the side where the answer is for a machine."""

    def __init__(self, *, aside: bool) -> None:
        self._stream = sys.stderr if aside else sys.stdout
        self._begun = time.monotonic()

    def tell(self, verdict: Verdict) -> None:
        """One line, and more where something is wrong."""
        shown = verdict.judged if verdict.good else verdict.judged.upper()
        by = shortened(verdict.command)
        line = f"{shown:<13}{verdict.seconds:6.1f} s  {verdict.name:<{WIDEST}} {by}"
        more = "".join(f"\n    {text}" for text in verdict.told.splitlines())
        print(line.rstrip() + more, file=self._stream, flush=True)

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._begun


def shortened(command: str) -> str:
    """A command on the rest of a line."""
    by = command.replace("python -m ", "").replace("pytest -q ", "")
    return by if len(by) <= ROOM else f"{by[: ROOM - 1]}…"


def listed(mutants: Sequence[Mutant]) -> str:
    """The planted bugs, for people."""
    return "\n\n".join(
        f"{one.name}\n  {one.defect}\n  {one.harm}\n"
        f"  caught by: {one.command}\n  saying:    {one.phrase}"
        for one in mutants
    )


def document(verdicts: Sequence[Verdict], seconds: float) -> dict[str, Any]:
    """Everything for a machine."""
    return {
        "caught": sum(one.good for one in verdicts),
        "total": len(verdicts),
        "seconds": round(seconds, 1),
        "verdicts": [one._asdict() for one in sorted(verdicts)],
    }


def summary(verdicts: Sequence[Verdict], seconds: float) -> str:
    """The count, and the names of those that were not caught."""
    missing = [one.name for one in sorted(verdicts) if not one.good]
    named = f"; not caught: {', '.join(missing)}" if missing else ""
    return f"caught {len(verdicts) - len(missing)}/{len(verdicts)} in {seconds:.0f} s{named}"
