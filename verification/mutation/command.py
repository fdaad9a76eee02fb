"""``python -m verification.mutation``: sees the commands green, then plants bug after bug."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from verification.mutation.copies import ROOT
from verification.mutation.patching import Stale
from verification.mutation.planting import planted
from verification.mutation.report import Shown, document, listed, summary
from verification.mutation.shelf import Mutant, Unreadable, shelf
from verification.mutation.trials import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

EXAMPLES = """\
examples:
  python -m verification.mutation                    all of them, some minutes
  python -m verification.mutation --list             what is planted, and who finds it
  python -m verification.mutation --only 03          one of them, by its number or its name
  python -m verification.mutation --check            only whether every patch still applies

exit status: 0 every planted bug was caught, 1 one was not, 2 a patch or a
command line is wrong"""


STALE = (
    "this patch no longer applies, {problem}: see what became of those lines, plant the same bug "
    "there, and write the diff anew"
)


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m verification.mutation",
        description="Plant known bugs in a copy of the sources, and see the proofs turn red.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="only this one; may be repeated"
    )
    parser.add_argument("--list", action="store_true", help="show them and run nothing")
    parser.add_argument("--check", action="store_true", help="apply them and run nothing")
    parser.add_argument("--lanes", type=int, default=2, metavar="N", help="how many at once (2)")
    parser.add_argument(
        "--no-baseline", action="store_true", help="do not see the commands green before"
    )
    parser.add_argument("--json", action="store_true", help="answer with one JSON document")
    asked = parser.parse_args(arguments)
    if asked.lanes < 1:
        parser.error("--lanes must be 1 or more")
    return asked


def wanted(mutants: Sequence[Mutant], names: Sequence[str] | None) -> list[Mutant]:
    """Those that were asked for: by a name, or by how it begins."""
    if not names:
        return list(mutants)
    for name in names:
        if not any(one.name.startswith(name) for one in mutants):
            raise Unreadable(f"there is no planted bug {name}: --list shows them")
    return [one for one in mutants if any(one.name.startswith(name) for name in names)]


def main(arguments: list[str] | None = None) -> int:
    """Run, report, and return the exit code."""
    asked = parsed(arguments)
    try:
        mutants = wanted(shelf(), asked.only)
    except (Unreadable, Stale) as problem:
        print(f"mutants: {problem}", file=sys.stderr)
        return 2
    if asked.list:
        found = [
            {**one._asdict(), "changes": [each.path for each in one.changes]} for one in mutants
        ]
        print(json.dumps(found) if asked.json else listed(mutants))
        return 0
    shown = Shown(aside=asked.json)
    stale = stale_among(mutants)
    for one in stale:
        shown.tell(one)
    if asked.check or stale:
        good = len(mutants) - len(stale)
        told = {"apply": good, "total": len(mutants), "stale": [one.name for one in stale]}
        print(json.dumps(told) if asked.json else f"{good}/{len(mutants)} patches apply")
        return 2 if stale else 0
    return plant(asked, mutants, shown)


def stale_among(mutants: Sequence[Mutant]) -> list[Verdict]:
    """Those whose patches no longer apply to the sources."""
    return [
        Verdict(one.name, "stale", "", told=STALE.format(problem=problem))
        for one in mutants
        if (problem := stale(one)) is not None
    ]


def stale(mutant: Mutant) -> Stale | None:
    """Why a patch does not apply, where it does not."""
    try:
        for change in mutant.changes:
            change.changed(ROOT)
    except Stale as problem:
        return problem
    return None


def plant(asked: argparse.Namespace, mutants: Sequence[Mutant], shown: Shown) -> int:
    """Plant them all."""
    verdicts = planted(mutants, shown.tell, lanes=asked.lanes, baseline=not asked.no_baseline)
    seconds = shown.seconds
    print(json.dumps(document(verdicts, seconds)) if asked.json else summary(verdicts, seconds))
    return 0 if all(one.good for one in verdicts) else 1
