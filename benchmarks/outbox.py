"""Messages per second, staged in a transaction and relayed to a local receiver.

Rows are named ``<peer>/<measure>``: ``relay`` (from the first message that arrives until the last
is written down as sent), ``stage`` (transactions with one row of the caller's and one message) and
``end-to-end`` (from the begin of such a transaction until the receiver has the message, the relay
idle in the same process). ``loop`` is the relay that people write first: select one, post it with
httpx, update, commit; ``pooled`` is twenty of them at once, and duly sends twenty at once, too.
"""

from __future__ import annotations

import argparse
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

from benchmarks.jobs import SERVER
from benchmarks.relaying.aims import ratios
from benchmarks.relaying.contenders import CONTENDERS, MEASURES, NAMES
from benchmarks.relaying.contest import Contest, Pace
from benchmarks.relaying.grounds import OnPostgres, OnSqlite
from benchmarks.relaying.processes import receiving
from benchmarks.relaying.showing import report
from benchmarks.report import positive, say, warn_if_busy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.relaying.contenders import Store
    from benchmarks.relaying.grounds import Ground

ROUNDS, MESSAGES, STAGED, SAMPLES = 3, 5_000, 1_000, 100
QUICKLY = Pace(rounds=1, messages=50, staged=10, samples=3)


def main(arguments: Sequence[str]) -> int:
    options = parsed(arguments)
    wanted = [one for one in CONTENDERS if one.name in (options.peer or NAMES)]
    if SERVER not in os.environ and any(one.store == "postgres" for one in wanted):
        say(f"{SERVER} names no server; `make bench SUITE=outbox` starts one")
        return 2
    warn_if_busy()
    pace = QUICKLY if options.quick else Pace(options.rounds, options.messages, STAGED, SAMPLES)
    with ExitStack() as stack:
        grounds: dict[Store, Ground] = {"sqlite": OnSqlite()}
        if SERVER in os.environ:
            server = grounds["postgres"] = OnPostgres(os.environ[SERVER])
            stack.callback(server.close)
        receiver = stack.enter_context(receiving())
        rows = Contest(grounds, receiver, pace, say).run(wanted, options.measure or MEASURES)
    if not rows:
        say("nothing was measured")
        return 2
    print(report(rows, list(ratios(rows)), machine=options.json), flush=True)
    return 0 if all(row.valid for row in rows) else 1


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks outbox", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small counts: proves it runs")
    parser.add_argument("--peer", action="append", choices=NAMES, help="this peer only")
    parser.add_argument("--measure", action="append", choices=MEASURES, help="this measure only")
    parser.add_argument("--messages", type=positive, default=MESSAGES, help="of a relay; 5,000")
    parser.add_argument("--rounds", type=positive, default=ROUNDS, help="3")
    parser.add_argument("--json", action="store_true", help="the last line only")
    return parser.parse_args(arguments)
