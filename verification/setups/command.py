"""``python -m verification.setups``: runs documented set-ups, audits them, and reports."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.servers.postgresql import postgres
from tests.support.servers.running import StartFailed

from verification.setups.catalog import QUICK, every_setup, selected
from verification.setups.faults import FAULTS, NONE, fits
from verification.setups.places import prepared
from verification.setups.report import Progress, as_json, report
from verification.setups.trial import Order, Outcome, Room, Stopped, run_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from verification.setups.catalog import Setup
    from verification.setups.places import Server

INTERRUPTED = 130
QUICK_SECONDS, LONG_SECONDS = 4.0, 60.0
ALL = "all"
EXAMPLES = """\
examples:
  python -m verification.setups --list                             the names of all set-ups
  python -m verification.setups --quick           what CI runs: the common ones, seconds each
  python -m verification.setups                   all of them, a minute each, without faults
  python -m verification.setups --faults storm    the same while everything is struck in turn
  python -m verification.setups sqlalchemy-asyncpg/both/serve --seconds 5
  python -m verification.setups 'django-*' --faults kill --seconds 20

A name is DATABASE/KIND/FORM. A pattern is a glob, or the beginning of a name up to a slash."""


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m verification.setups",
        description="Run the set-ups that the documentation shows with four senders, and audit "
        "them from outside.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("pattern", nargs="*", help="only these set-ups (all)")
    parser.add_argument("--quick", action="store_true", help="the common ones, seconds each")
    parser.add_argument("--list", action="store_true", help="print the names of the set-ups")
    parser.add_argument(
        "--faults",
        action="append",
        choices=[NONE, *FAULTS, ALL],
        help="under this fault: none, one kind, storm for a mixture, all for each in turn (none)",
    )
    parser.add_argument("--seconds", type=positive, help="of traffic, for each (60; quick: 4)")
    parser.add_argument("--seed", type=int, default=1, help="of traffic and faults (1)")
    parser.add_argument("--lanes", type=lanes, default=2, help="how many at once (2)")
    parser.add_argument(
        "--logs", type=Path, metavar="FOLDER", help="keep the logs of set-ups that failed there"
    )
    parser.add_argument("--json", action="store_true", help="the findings as JSON")
    return parser.parse_args(arguments)


def positive(text: str) -> float:
    """A number of seconds."""
    with suppress(ValueError):
        if 0 < (seconds := float(text)) <= 86_400:
            return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds: give 1 to 86400")


def lanes(text: str) -> int:
    """How many run at once."""
    if text.isdecimal() and 1 <= int(text) <= 32:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number of lanes: give 1 to 32")


def orders_of(asked: argparse.Namespace) -> list[Order]:
    """What is to be run."""
    if asked.quick:
        seconds, wanted = asked.seconds or QUICK_SECONDS, {one.name for one in chosen(asked)}
        known = {one.name: one for one in every_setup()}
        pairs = [(known[name], fault) for name, fault in QUICK if name in wanted]
    else:
        seconds, faults = asked.seconds or LONG_SECONDS, asked.faults or [NONE]
        if ALL in faults:
            faults = [each for each in (NONE, *FAULTS) if each in faults or each != NONE]
        pairs = [(one, each) for each in faults for one in chosen(asked) if fits(one, each)]
    return [Order(setup, fault, seconds, asked.seed) for setup, fault in pairs]


def chosen(asked: argparse.Namespace) -> list[Setup]:
    """The set-ups that the patterns select."""
    return selected(asked.pattern)


def run_all(orders: list[Order], asked: argparse.Namespace) -> tuple[list[Outcome], float]:
    """Run the orders, some at a time; the outcomes so far where it was told to end."""
    progress, outcomes, stop = Progress(len(orders), quiet=asked.json), [], threading.Event()
    lock = threading.Lock()

    def run_one(order: Order, room: Room) -> None:
        if room.stop.is_set():
            return
        progress.begin(order)
        with suppress(Stopped):
            outcome = run_order(order, room)
            with lock:
                outcomes.append(outcome)
            progress.end(outcome)

    with ExitStack() as stack:
        room = Room(serving(stack, orders), stop, asked.logs)
        pool = stack.enter_context(ThreadPoolExecutor(asked.lanes))
        try:
            for done in [pool.submit(run_one, order, room) for order in orders]:
                done.result()
        except BaseException:
            stop.set()
            raise Interrupted(outcomes, progress.seconds) from None
        finally:
            progress.close()
    in_order = {order: at for at, order in enumerate(orders)}
    return sorted(outcomes, key=lambda one: in_order[one.order]), progress.seconds


class Interrupted(Exception):
    """The run was told to end; with what was found so far."""


def serving(stack: ExitStack, orders: list[Order]) -> Server | None:
    """The PostgreSQL server that the set-ups share, where one needs it."""
    if all(one.setup.database.store == "sqlite" for one in orders):
        return None
    return stack.enter_context(prepared(stack.enter_context(postgres())))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, report, and return the exit code."""
    asked = parsed(arguments)
    orders = orders_of(asked)
    if not orders:
        print("setups: no set-up fits: see --list", file=sys.stderr)
        return 2
    if asked.list:
        print("\n".join(dict.fromkeys(order.name for order in orders)))
        return 0
    # A supervisor's SIGTERM takes the same way out as Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    code = 0
    try:
        outcomes, seconds = run_all(orders, asked)
    except Interrupted as early:
        outcomes, seconds = early.args
        code = INTERRUPTED
        print("setups: ended before its time; so far:", file=sys.stderr)
    except StartFailed as problem:
        print(f"setups: {problem}", file=sys.stderr)
        return 2
    if asked.json:
        print(json.dumps(as_json(outcomes, seconds)))
    else:
        report(outcomes, seconds)
    return code or int(any(one.violations for one in outcomes))
