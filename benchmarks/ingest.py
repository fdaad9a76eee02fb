"""Deliveries accepted per second over HTTP, next to the handlers that people write by hand.

Rows are named ``<store>/<peer>/<connections>``. One server process each, all behind the same HTTP
server, loop and parser, all as durable as duly: `benchmarks.ingesting` says what the peers do.
"""

from __future__ import annotations

import argparse
import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from benchmarks.ingesting.aims import ratios
from benchmarks.ingesting.contenders import CONNECTIONS, PEERS, SERVERS, STORES, contenders
from benchmarks.ingesting.contest import SERVER, Pace, Seen, measured
from benchmarks.ingesting.deliveries import SIZES
from benchmarks.ingesting.showing import report
from benchmarks.report import positive, say, warn_if_busy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.ingesting.contest import Row

ROUNDS = 3
# Long enough that pools are up, statements prepared and code warm.
WARM_UP = 0.4


def main(arguments: Sequence[str]) -> int:
    options = parsed(arguments)
    servers = options.server or SERVERS[:1]
    if absent := [name for name in servers if find_spec(name) is None]:
        say(f"not installed: {', '.join(absent)}")
        return 2
    pace = Pace(options.rounds, options.seconds, WARM_UP, options.body)
    if options.quick:
        pace = Pace(1, 0.2, 0.1, options.body)
    warn_if_busy()
    rows: list[Row] = []
    for store in options.store or STORES:
        if store == "postgres" and SERVER not in os.environ:
            say(f"no rows for postgres: {SERVER} names no server; `make bench` starts one")
            continue
        wanted = contenders(store, options.peer or PEERS, servers)
        total = len(wanted) * len(options.connections) * pace.rounds
        rows += measured(wanted, options.connections, pace, teller(total))
    if not rows:
        say("nothing was measured")
        return 2
    print(report(rows, list(ratios(rows)), machine=options.json), flush=True)
    return 0 if all(row.valid for row in rows) else 1


def teller(total: int) -> Callable[[Seen], None]:
    """A line for each round, on the stream that is not the report's."""
    done = 0

    def tell(seen: Seen) -> None:
        nonlocal done
        done += 1
        last = seen.rounds[-1]
        rate = last["accepted"] / last["seconds"]
        pool = f" (pool of {seen.contender.pool})" if seen.contender.pool else ""
        wrong = f", not accepted: {last['others']}" if last["others"] else ""
        say(f"{done}/{total} {seen.contender.row(seen.connections)}{pool}: {rate:,.0f}/s{wrong}")

    return tell


def numbers(text: str) -> list[int]:
    """Numbers of connections, separated by commas."""
    found = [int(one) for one in text.split(",")]
    if min(found) < 1:
        raise ValueError
    return found


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks ingest", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="seconds, not minutes: proves it runs")
    parser.add_argument("--seconds", type=float, default=1.2, help="of each round; 1.2")
    parser.add_argument(
        "--connections", type=numbers, default=list(CONNECTIONS), help="such as 1,64; 1,16,64,256"
    )
    parser.add_argument("--store", action="append", choices=STORES, help="this store only")
    parser.add_argument("--peer", action="append", choices=PEERS, help="this peer only")
    parser.add_argument("--server", action="append", choices=SERVERS, help="instead of uvicorn")
    parser.add_argument("--rounds", type=positive, default=ROUNDS, help="3; a row is their median")
    parser.add_argument(
        "--body", choices=list(SIZES), default="usual", help="usual: 2 KB; small: 350 bytes"
    )
    parser.add_argument("--json", action="store_true", help="the last line only")
    return parser.parse_args(arguments)
