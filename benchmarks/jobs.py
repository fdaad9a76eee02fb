"""Jobs per second and how soon they begin, next to the queues that people use on PostgreSQL.

Rows are named ``<peer>/<measure>``: ``drain`` (jobs that do nothing), ``update`` (jobs that do one
UPDATE: duly's with ``tx``, in one commit with their settling; the peers' in a commit of its own),
``update-bulk`` (the same for a handler that is given a hundred jobs and one transaction),
``enqueue`` and ``latency`` (from the call that enqueues until the job begins, the worker idle).
One worker process each; `benchmarks.working` says who the peers are. Each library is installed into
an environment of its own under ``.cache/peers``; the first run does that.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from benchmarks.report import positive, say, warn_if_busy
from benchmarks.working.aims import ratios
from benchmarks.working.contenders import BULK, CONTENDERS, MEASURES, NAMES, OURS
from benchmarks.working.contest import Contest, Pace
from benchmarks.working.environments import Absent, python_for
from benchmarks.working.players.ours import takes_many
from benchmarks.working.processes import Playing
from benchmarks.working.showing import report

if TYPE_CHECKING:
    from collections.abc import Sequence

SERVER = "DULY_TEST_POSTGRES"
ROUNDS = 3
COUNTS = {"jobs": 20_000, "one": 1_000, "within": 1_000, "bulk": 10_000, "samples": 100}
QUICKLY = {"jobs": 300, "one": 30, "within": 30, "bulk": 300, "samples": 5}


def main(arguments: Sequence[str]) -> int:
    options = parsed(arguments)
    if SERVER not in os.environ:
        say(f"{SERVER} names no server; `make bench SUITE=jobs` starts one")
        return 2
    warn_if_busy()
    counts = QUICKLY if options.quick else {**COUNTS, "jobs": options.jobs}
    pace = Pace(1 if options.quick else options.rounds, counts)
    absent: dict[str, str] = {}
    playing: list[Playing] = []
    for contender in CONTENDERS:
        if contender.name in (options.peer or NAMES):
            python = python_for(contender.player, contender.library)
            if isinstance(python, Absent):
                say(f"no rows for {contender.name}: {python.reason}")
                absent[contender.name] = python.reason
            else:
                playing.append(Playing(contender, python, contender.counts(counts)))
    measures = list(options.measure or MEASURES)
    if BULK in measures and not takes_many():
        absent[f"{OURS}/{BULK}"] = "is not there: Duly.job of this duly has no many="
        say(f"no row {OURS}/{BULK}: {absent[f'{OURS}/{BULK}']}")
        measures.remove(BULK)
    rows = Contest(os.environ[SERVER], pace, say).run(playing, measures)
    if not rows:
        say("nothing was measured")
        return 2
    print(report(rows, list(ratios(rows)), absent, machine=options.json), flush=True)
    return 0 if all(row.valid for row in rows) else 1


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks jobs", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small counts: proves it runs")
    parser.add_argument("--peer", action="append", choices=NAMES, help="this peer only")
    parser.add_argument("--measure", action="append", choices=MEASURES, help="this measure only")
    parser.add_argument(
        "--jobs", type=positive, default=COUNTS["jobs"], help="of a drain; 20,000 (dbos: a tenth)"
    )
    parser.add_argument("--rounds", type=positive, default=ROUNDS, help="3; a figure is its median")
    parser.add_argument("--json", action="store_true", help="the last line only")
    return parser.parse_args(arguments)
