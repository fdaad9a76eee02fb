"""What a flood of forged deliveries does to the genuine ones: their p99 with it and without.

Two servers take turns: duly as it is, which tells in its log why it rejected something (`told`),
and duly with a log that takes no warnings, which looks for no cause (`silent`). The same genuine
load meets them three times a round: alone (`quiet`), and both servers with the flood. A row is
named by the store and the size of the forged bodies. `ratio` is told over silent: what telling
costs. `flood` is told over quiet: it holds what reading and verifying the forged bodies costs
every server, too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from contextlib import ExitStack
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.ingesting.contenders import MOUNTED, Contender
from benchmarks.ingesting.contest import database_for
from benchmarks.ingesting.processes import ROOT, Served, serving
from benchmarks.ingesting.tables import make
from benchmarks.report import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.ingesting.flood import Order

SIZES = {"400B": 400, "60KB": 60_000, "1MB": 1_000_000}
CONNECTIONS = 4
WARM_UP = 1.0
PATIENCE = 60.0


class Row(NamedTuple):
    """The p99 of genuine deliveries in milliseconds, the median of the rounds."""

    name: str
    quiet: float
    silent: float
    told: float

    @property
    def ratio(self) -> float:
        """What telling why costs the genuine deliveries."""
        return self.told / self.silent

    @property
    def flood(self) -> float:
        """What the flood costs them altogether."""
        return self.told / self.quiet


def main(arguments: Sequence[str]) -> int:
    options = parsed(arguments)
    if options.quick:
        options.seconds, options.forgeries, options.rounds = 0.5, 8, 1
    wanted = options.bytes or list(SIZES)
    rows = []
    with ExitStack() as stack:
        told, silent = (opened(stack, peer) for peer in (MOUNTED, "silent"))
        for size in wanted:
            rows.append(measured(told, silent, size, options))
            say(f"{len(rows)}/{len(wanted)} {rows[-1].name}: {rows[-1].ratio:.2f}")
    print(table(rows))
    found = [{**row._asdict(), "ratio": row.ratio, "flood": row.flood} for row in rows]
    print(json.dumps({"suite": "rejections", "rows": found}), flush=True)
    return 0


def opened(stack: ExitStack, peer: str) -> Served:
    """A server on a database that goes with the run."""
    contender = Contender("sqlite", peer)
    url = stack.enter_context(database_for(contender))
    make(url, MOUNTED)
    return stack.enter_context(serving(contender, url))


def measured(told: Served, silent: Served, size: str, options: argparse.Namespace) -> Row:
    """One row: the three loads, in another order each round."""
    found: dict[str, list[float]] = {"quiet": [], "silent": [], "told": []}
    for number in range(options.rounds):
        for name in list(found) if number % 2 == 0 else reversed(list(found)):
            served = silent if name == "silent" else told
            flood = None if name == "quiet" else size
            found[name].append(1000 * p99(served, flood, options))
    quiet, quietly, loudly = (median(found[name]) for name in ("quiet", "silent", "told"))
    return Row(f"sqlite/{size}", quiet, quietly, loudly)


def p99(served: Served, flood: str | None, options: argparse.Namespace) -> float:
    """The p99 of a genuine load, in seconds; every one of it must be accepted."""
    process = None if flood is None else flooding(served.port, SIZES[flood], options)
    try:
        seen = served.meet(CONNECTIONS, options.seconds, WARM_UP, "small")
        if seen["others"]:
            raise SystemExit(f"not accepted: {seen['others']}")
        if process is not None:
            answers = json.loads(process.communicate(timeout=PATIENCE)[0])
            if answers != {"403": options.forgeries}:
                raise SystemExit(f"the forged deliveries were told {answers}")
        return seen["p99"]
    finally:
        if process is not None:
            process.kill()
            process.wait()


def flooding(port: int, size: int, options: argparse.Namespace) -> subprocess.Popen[str]:
    """Begin to send forged deliveries, as many as asked for, over the whole time."""
    order: Order = {
        "port": port,
        "bytes": size,
        "count": options.forgeries,
        "seconds": options.seconds + WARM_UP,
    }
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.ingesting.flood", json.dumps(order)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def table(rows: Sequence[Row]) -> str:
    """Plain columns; times in milliseconds."""
    head = f"{'p99, ms':12}  {'quiet':>7}  {'silent':>7}  {'told':>7}  {'ratio':>6}  {'flood':>6}"
    lines = [
        f"{row.name:12}  {row.quiet:7.2f}  {row.silent:7.2f}  {row.told:7.2f}  {row.ratio:6.2f}"
        f"  {row.flood:6.2f}"
        for row in rows
    ]
    return "\n".join([head, *lines])


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks rejections", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="seconds, not minutes: proves it runs")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each load; 20")
    parser.add_argument("--forgeries", type=int, default=1000, help="in that time; 1000")
    parser.add_argument("--rounds", type=int, default=3, help="3; a row is their median")
    parser.add_argument("--bytes", action="append", choices=list(SIZES), help="this size only")
    return parser.parse_args(arguments)
