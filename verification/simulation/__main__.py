"""Play schedules of duly's real classes on a virtual clock, by a seed.

Each schedule is one number. It decides who goes on at every await, who is
killed, stopped or loses a reply, and when the clock is set. At its end, and at
many steps of it, the promises of duly are checked. A number that breaks one is
printed, and plays again, step by step, with --replay.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from verification.simulation.campaign import Tally

EXAMPLES = """\
examples:
  python -m verification.simulation
      1,000 schedules, about a minute
  python -m verification.simulation --schedules 100000 --processes 2
  python -m verification.simulation --seed 5000 --schedules 200 --json
  python -m verification.simulation --replay 4711
      the story of one schedule
"""
MISSING = (
    "simulation: greenlet is not installed, on which simulated threads run: `pip install "
    "greenlet`, or `make test` once, which installs everything"
)
SCHEDULES = 1000


def arguments_of(words: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m verification.simulation",
        usage="%(prog)s [options]",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--schedules", type=positive, default=SCHEDULES, metavar="N",
        help=f"how many to play ({SCHEDULES:,} unless given)",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=positive, default=1, metavar="N", help="the first of them (1 unless given)"
    )
    parser.add_argument(
        "--processes", type=positive, default=1, metavar="N",
        help="share them among so many processes of the machine",
    )  # fmt: skip
    parser.add_argument(
        "--replay", type=positive, metavar="SEED", help="tell the story of one schedule"
    )
    parser.add_argument("--json", action="store_true", help="answer with one JSON document")
    return parser.parse_args(words)


def positive(text: str) -> int:
    """A whole number from 1 on."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def campaign(arguments: argparse.Namespace) -> int:
    """Play many schedules; 1 where a promise was broken or was never in danger."""
    from duly.app.output import Progress
    from verification.simulation.campaign import Campaign
    from verification.simulation.report import document, progress, report

    whole = Campaign(arguments.schedules, arguments.seed, arguments.processes)

    with Progress() as shown:

        def told(tally: Tally) -> None:
            shown.show(progress(tally, arguments.schedules))

        tally = whole.run(told)
    if arguments.json:
        print(json.dumps(document(tally, whole)))
    else:
        print(report(tally, whole))
    return 0 if tally.good else 1


def replay(arguments: argparse.Namespace) -> int:
    """Tell the story of one schedule; 1 where it breaks a promise."""
    from verification.simulation.replay import replayed

    story = replayed(arguments.replay)
    if arguments.json:
        print(json.dumps(story.document()))
    else:
        print("\n".join(story.text()))
    return 0 if story.broken is None else 1


def main(words: list[str]) -> int:
    """Play, and return the exit code."""
    arguments = arguments_of(words)
    if find_spec("greenlet") is None:
        print(MISSING, file=sys.stderr)
        return 3
    try:
        return replay(arguments) if arguments.replay is not None else campaign(arguments)
    except BrokenPipeError:  # the reader of the story has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
