"""Watching the fence: a statement for a lease that is not the newest must change nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from verification.simulation.errors import Violation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from verification.simulation.database import Database, Transaction
    from verification.simulation.processes import Process

JOB = "SELECT 1 FROM duly_jobs WHERE id=:id AND state='leased' AND token=:token AND epoch=:epoch"
MESSAGE = JOB.replace("duly_jobs", "duly_outbox")
CLAIM = """SELECT 1 FROM duly_claims WHERE scope = :scope AND digest = :digest AND state = 'held'
              AND token = :token AND epoch = :epoch"""
# Statements that end or use the lease of one job, in its handler's transaction or in their own.
ONE_JOB = {"jobs_done": "id", "jobs_return": "id", "jobs_bury": "id"}
STEPS = {"effects_intend": "job", "effects_write": "job", "effects_undo": "job"}
MANY = {
    "jobs_done_many": JOB,
    "outbox_sent_many": MESSAGE,
    "outbox_return_many": MESSAGE,
    "outbox_bury_many": MESSAGE,
}
CLAIMS = ("claims_mark", "claims_renew")
# After these, a stale worker's whole transaction must go.
FATAL = {"jobs_done", *STEPS}
# All of them.
FENCED = frozenset({*ONE_JOB, *STEPS, *MANY, *CLAIMS})


class Stale:
    """A statement that speaks for leases that were lost."""

    def __init__(self, statement: str, whose: set[str], *, all_rows: bool = False) -> None:
        self._statement = statement
        self._whose = whose
        self._all_rows = all_rows

    def judge(
        self, process: Process, rows: Sequence[Mapping[str, Any]], transaction: Transaction | None
    ) -> None:
        """Refuse to believe that it changed anything."""
        changed = self._whose if self._all_rows and rows else {row[0] for row in rows}  # type: ignore[index]
        self._judge(process, changed, transaction)

    def judge_count(self, process: Process, written: int, transaction: Transaction | None) -> None:
        """The same of a statement for one lease that only counts its rows."""
        self._judge(process, self._whose if written else set(), transaction)

    def _judge(self, process: Process, changed: set[Any], transaction: Transaction | None) -> None:
        seen = process.world.seen
        seen["zombie acks tried"] += len(self._whose)
        wrong = self._whose & changed
        if wrong:
            raise Violation(
                "I8",
                f"{process} changed {', '.join(sorted(wrong))} by {self._statement} although its "
                "lease was lost",
            )
        seen["zombie acks refused"] += len(self._whose)
        if transaction is not None and self._statement in FATAL:
            transaction.doomed = f"its lease on {', '.join(sorted(self._whose))} was lost"


def watched(database: Database, statement: str, values: Mapping[str, Any]) -> Stale | None:
    """Whether one of the fenced statements, about to run, speaks for a lease that was lost."""
    if statement in MANY:
        return many(database, statement, json.loads(values["each"]))
    if statement in ONE_JOB or statement in STEPS:
        job = values[ONE_JOB.get(statement) or STEPS[statement]]
        named = {"id": job, "token": values["token"], "epoch": values["epoch"]}
        if database.rows(JOB, **named):
            return None
        return Stale(statement, {job}, all_rows=statement in STEPS)
    named = {name: values[name] for name in ("scope", "digest", "token", "epoch")}
    whose = {values["digest"].hex()}
    return None if database.rows(CLAIM, **named) else Stale(statement, whose, all_rows=True)


def many(database: Database, statement: str, each: list[list[Any]]) -> Stale | None:
    """The same for a statement that speaks for many."""
    stale = {
        one[0]
        for one in each
        if not database.rows(
            MANY[statement], id=one[0], token=bytes.fromhex(one[1]), epoch=int(one[2])
        )
    }
    return Stale(statement, stale) if stale else None
