"""How the cost of a delivery and of a job grows with rows, handlers, bodies and processes.

Rows are named ``<axis>/<value>``. At each point a load meets `duly serve` as it is shipped, on
PostgreSQL, and workers drain the jobs of what it accepted. Told are rates and processor time; the
cost is that of the server or the workers and of PostgreSQL together. From the smallest point of an
axis to its largest, nothing but the bodies may make it grow by more than 1.3. The plot is an SVG.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.growing.axes import AXES, LARGE, points
from benchmarks.growing.contest import Contest, Pace, growths
from benchmarks.growing.plot import svg
from benchmarks.growing.showing import report
from benchmarks.ingesting.processes import DISK
from benchmarks.processor import KNOWN
from benchmarks.report import positive, say, warn_if_busy

if TYPE_CHECKING:
    from collections.abc import Sequence

SERVER = "DULY_TEST_POSTGRES"
# Long, next to the time that the largest bodies and the most connections take to be answered.
SECONDS, WARM_UP = 3.0, 1.0
ROUNDS, JOBS = 3, 5_000


def main(arguments: Sequence[str]) -> int:
    options = parsed(arguments)
    if SERVER not in os.environ:
        say(f"{SERVER} names no server; `make bench SUITE=growth` starts one")
        return 2
    pace = Pace(options.rounds, SECONDS, WARM_UP, JOBS)
    if options.quick:
        pace = Pace(1, 0.2, 0.1, 100)
    contest = Contest(os.environ[SERVER], pace, say)
    if contest.postmaster is None or not KNOWN:
        say("processor time is read from /proc, of a PostgreSQL on this machine: here is none")
        return 2
    warn_if_busy()
    wanted = options.axis or AXES
    rows = contest.run([points(axis, quick=options.quick, large=options.large) for axis in wanted])
    options.plot.parent.mkdir(parents=True, exist_ok=True)
    options.plot.write_text(svg(rows), encoding="utf-8")
    say(f"the plot is {options.plot}")
    print(report(rows, list(growths(rows)), str(options.plot), machine=options.json), flush=True)
    return 0 if all(row.valid for row in rows) else 1


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks growth", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small counts: proves it runs")
    parser.add_argument("--large", action="store_true", help=f"{LARGE:,} rows too: 15 GB, an hour")
    parser.add_argument("--axis", action="append", choices=AXES, help="this axis only")
    parser.add_argument("--rounds", type=positive, default=ROUNDS, help="3; a figure is its median")
    parser.add_argument(
        "--plot", type=Path, default=DISK / "growth.svg", help="where to; .cache/growth.svg"
    )
    parser.add_argument("--json", action="store_true", help="the last line only")
    return parser.parse_args(arguments)
