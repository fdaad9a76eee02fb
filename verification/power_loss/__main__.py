"""Cut the power, and see whether anything that was acknowledged is lost."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.servers.running import Missing

from verification.power_loss.unproven import Unproven

if TYPE_CHECKING:
    from collections.abc import Sequence

    from verification.power_loss.report import Report

EXAMPLES = """\
examples:
  python -m verification.power_loss sqlite              thousands of states, a minute
  python -m verification.power_loss sqlite --quick      a quarter of them, for every change
  python -m verification.power_loss postgres            a cluster on an image that is cut off
  python -m verification.power_loss sqlite --recording .cache/power/NAME --state 4711

exit status: 0 every promise kept, 1 a promise broken, 3 this machine
lacks something that the lane needs"""
MISSING = 3


def arguments_of(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        "python -m verification.power_loss",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    lanes = parser.add_subparsers(title="lanes", dest="store", required=True)
    both = argparse.ArgumentParser(add_help=False)
    both.add_argument("--quick", action="store_true", help="a part of the states")
    both.add_argument("--json", action="store_true", help="answer with one JSON document")
    add_sqlite(lanes.add_parser("sqlite", parents=[both], help="every state of a recorded file"))
    add_postgres(lanes.add_parser("postgres", parents=[both], help="a cluster on an image"))
    arguments = parser.parse_args(words)
    if arguments.store == "sqlite" and arguments.state is not None and arguments.recording is None:
        parser.error("--state is a number in a record: name it with --recording")
    return arguments


def add_sqlite(lane: argparse.ArgumentParser) -> None:
    """What the lane of SQLite takes."""
    lane.add_argument("--recording", type=Path, metavar="FOLDER", help="a record that was kept")
    lane.add_argument("--state", type=int, metavar="N", help="look at this state only")
    lane.add_argument(
        "--every", type=positive, metavar="N", help="look at every N-th state only (--quick: 4)"
    )
    lane.add_argument(
        "--rounds", type=positive, default=1, metavar="N", help="run every flow N times"
    )


def positive(text: str) -> int:
    """A number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number from 1 is wanted, not {text!r}")
    return int(text)


def add_postgres(lane: argparse.ArgumentParser) -> None:
    """What the lane of PostgreSQL takes."""
    lane.add_argument("--seed", type=int, default=1, metavar="N", help="when to cut")
    lane.add_argument(
        "--without-fsync", action="store_true", help="a server that lies: this must go red"
    )


def main(words: Sequence[str]) -> int:
    """Run one lane, and return the exit status."""
    arguments = arguments_of(words)
    # The same way out as for Ctrl-C: what was mounted or started must not stay.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        report = lane(arguments)
    except Unproven as problem:
        print(f"power: {problem}", file=sys.stderr)
        return 1
    if isinstance(report, Missing):
        print(f"power: {report}", file=sys.stderr)
        return MISSING
    print(report.json() if arguments.json else report.text())
    return 0 if report.sound else 1


def lane(arguments: argparse.Namespace) -> Report | Missing:
    """The lane that was asked for."""
    if arguments.store == "postgres":
        from verification.power_loss import postgres

        fsync = not arguments.without_fsync
        return postgres.run_lane(quick=arguments.quick, fsync=fsync, seed=arguments.seed)
    from verification.power_loss import sqlite

    every = arguments.every or (sqlite.QUICK if arguments.quick else 1)
    return sqlite.run_lane(
        arguments.recording, rounds=arguments.rounds, every=every, state=arguments.state
    )


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
