"""`python -m benchmarks SUITE`: one suite, ratios as a table, and one JSON object as last line."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from benchmarks.duels import QUICK, THOROUGH, Pace, run_duels
from benchmarks.report import progress, say, show

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from benchmarks.duels import Duel

# A suite is the module of that name in this package, imported only when it is asked for.
SUITES = {
    "claims": "claims per second, one durable commit each",
    "verify": "verifications per second, next to the libraries of three senders",
    "ingest": "deliveries accepted per second over HTTP; has options of its own, ingest --help",
    "rejections": "p99 of deliveries in a flood of forged ones; options: rejections --help",
    "jobs": "jobs per second on PostgreSQL; has options of its own, jobs --help",
    "outbox": "messages sent per second; has options of its own, outbox --help",
    "growth": "cost of a delivery and a job with rows, handlers, bodies, processes; growth --help",
}
STORES = ("sqlite", "postgres")
# The suites that measure stores; the others have no use for the options of a store.
STORED = ("claims",)
# The suites that are no duels: each reads its own options and reports in its own words.
APART = ("ingest", "jobs", "outbox", "rejections", "growth")


class Suite(Protocol):
    """What a suite's module offers."""

    def duels(self, stores: Sequence[str], *, lean: bool) -> AbstractContextManager[Sequence[Duel]]:
        """Open what the suite needs, and close it when the run is over."""


class SuiteApart(Protocol):
    """What the module of a suite apart offers."""

    def main(self, arguments: Sequence[str]) -> int:
        """Run it with these options."""


def main(arguments: Sequence[str]) -> int:
    if arguments and arguments[0] in APART:
        apart = cast("SuiteApart", import_module(f"benchmarks.{arguments[0]}"))
        return apart.main(arguments[1:])
    options = parsed(arguments)
    if options.suite not in SUITES:
        say(f"there is no suite {options.suite!r}; the suites are: {', '.join(SUITES)}")
        return 2
    if options.suite in APART:
        say(f"the options of the suite {options.suite!r} come after its name")
        return 2
    if options.suite not in STORED and (options.store or options.lean):
        say(f"the suite {options.suite!r} uses no store: leave --store and --lean out")
        return 2
    suite = cast("Suite", import_module(f"benchmarks.{options.suite}"))
    pace: Pace = QUICK if options.quick else THOROUGH
    with suite.duels(options.store or STORES, lean=options.lean) as found:
        wanted = [duel for duel in found if options.only in duel.name]
        if not wanted:
            say(f"no row is named {options.only!r}; they are: {', '.join(d.name for d in found)}")
            return 2
        with progress(wanted) as tell:
            rows = run_duels(wanted, pace, tell)
    show(options.suite, rows)
    return 0


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    listed = "; ".join(f"{name}: {what}" for name, what in SUITES.items())
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("suite", help=listed)
    parser.add_argument("--quick", action="store_true", help="seconds, not minutes: proves it runs")
    parser.add_argument("--store", action="append", choices=STORES, help="this store only")
    parser.add_argument("--lean", action="store_true", help="peers without BEGIN where one can do")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
