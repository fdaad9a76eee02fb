"""The lane as a program: takes a mode and a flow from its input, and prints verdicts.

python -m verification.crash_matrix.units
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.receiver.faults.clusters import cluster
from tests.support.servers.databases import create_database, through

from verification.crash_matrix.cases import case_of, paired, planned
from verification.crash_matrix.faults import FAULTS
from verification.crash_matrix.lane import Lane
from verification.crash_matrix.places import PostgresPlace, SqlitePlace
from verification.crash_matrix.poolers import pooler_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from verification.crash_matrix.cases import Case


TOLD_TO_END = 128 + signal.SIGTERM


class Lanes:
    """A lane for each store, made when it is first asked for."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._made: dict[str, Lane] = {}
        self._warm: set[str] = set()
        self._url = ""
        self._server: Path | None = None

    def of(self, mode: str) -> Lane:
        """The lane of a mode."""
        store = mode.split("-", maxsplit=1)[0]
        if store not in self._made:
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
            lane = self._sqlite(folder) if store == "sqlite" else self._postgres(store, folder)
            self._stack.callback(lane.close)
            self._made[store] = lane
        if mode not in self._warm:
            self._made[store].warm(mode)
            self._warm.add(mode)
        return self._made[store]

    def _sqlite(self, folder: Path) -> Lane:
        return Lane(SqlitePlace(folder), folder)

    def _postgres(self, store: str, folder: Path) -> Lane:
        if self._server is None:
            server = self._stack.enter_context(cluster())
            self._url, self._server = server.url, server.folder
        url = create_database(self._url)
        if store == "postgres":
            return Lane(PostgresPlace(url), folder, self._server)
        pooler = self._stack.enter_context(pooler_of(self._url))
        return Lane(PostgresPlace(through(pooler, url), url), folder, self._server)


def carried_out(lane: Lane, cases: Iterable[Case], *, planned: bool) -> None:
    """Run cases, and tell of each."""
    for case in cases:
        begun = time.monotonic()
        verdict = lane.run(case, planned=planned)
        tell(
            "case",
            case=str(case),
            violations=verdict.violations,
            zombies=verdict.zombies,
            passed_by=verdict.passed_by,
            doubly=verdict.doubly,
            waited_for=verdict.waited_for,
            refused=verdict.refused,
            unsteady=verdict.unsteady,
            seconds=round(time.monotonic() - begun, 3),
        )


def tell(kind: str, **facts: Any) -> None:
    """One line to whoever started this lane."""
    print(json.dumps({"kind": kind, **facts}), flush=True)


def main() -> None:
    """Carry out orders, one to a line, until there are no more."""
    logging.getLogger("duly").setLevel(logging.CRITICAL)  # faults are what it is about
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TOLD_TO_END))  # and take its servers down
    with ExitStack() as stack:
        lanes = Lanes(stack)
        for line in sys.stdin:
            order = json.loads(line)
            if "case" in order:
                case = case_of(order["case"])
                carried_out(lanes.of(case.mode), [case], planned=False)
            else:
                mode, flow = order["mode"], order["flow"]
                lane = lanes.of(mode)
                plan = lane.plan(mode, flow)
                cases = list(planned(mode, flow, plan.passed, quick=order["quick"]))
                cases = [case for case in cases if case.fault in (order["faults"] or FAULTS)]
                cases += paired(cases, order["pairs"], order["seed"])
                boundaries, unsteady = len(plan.passed), plan.unsteady
                tell("plan", flow=f"{mode}/{flow}", boundaries=boundaries, unsteady=unsteady,
                     cases=len(cases), empty=not plan.passed)  # fmt: skip
                carried_out(lane, [] if order["plan"] else cases, planned=True)
            tell("done", order=order)


if __name__ == "__main__":
    main()
