"""What is in the tables and journals at the end of a schedule, read once for all checks."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from verification.simulation.database import Database


class Accepted(NamedTuple):
    """An event as it was written into the inbox."""

    id: str
    scope: str
    event: str
    flags: str
    at: int
    fingerprint: bytes


class Enqueued(NamedTuple):
    """A job as it was enqueued."""

    id: str
    name: str
    event: str | None
    payload: dict[str, Any]


class Effect(NamedTuple):
    """What a handler wrote."""

    event: str
    handler: str
    job: str | None
    epoch: int
    amount: int


class Move(NamedTuple):
    """A step of a job, a message or a claim."""

    what: str
    id: str
    before: str | None
    after: str | None
    epoch: int
    token: bytes | None
    attempts: int
    rescues: int
    most: int


class Facts:
    """Everything that was committed."""

    def __init__(self, database: Database) -> None:
        rows: Any = database.rows
        self.accepted = [Accepted(*row) for row in rows("SELECT * FROM accepted ORDER BY rowid")]
        self.jobs = {
            row[0]: Enqueued(row[0], row[1], row[2], json.loads(row[3]) if row[3] else {})
            for row in rows("SELECT * FROM enqueued ORDER BY rowid")
        }
        self.effects = [Effect(*row) for row in rows("SELECT * FROM effects ORDER BY rowid")]
        self.moves = [Move(*row) for row in rows("SELECT * FROM moves ORDER BY rowid")]
        self.staged: dict[str, Any] = dict(rows("SELECT * FROM staged ORDER BY rowid"))
        self.ended = {move.id: move.after for move in self.moves if move.what == "history"}
        self.dead = {row[0] for row in rows("SELECT id FROM duly_jobs WHERE state = 'dead'")}
        self.dead_messages = {row[0] for row in rows("SELECT id FROM duly_outbox")}
        self.kept = {row[0] for row in rows("SELECT id FROM duly_events")}
        self.outcomes = {
            (row[0], row[1]): row[2] for row in rows("SELECT job, name, state FROM duly_effects")
        }
        self.keys = {row[0]: row[1] for row in rows("SELECT job, key FROM duly_effects")}
        self.counter: int = rows("SELECT n FROM counter")[0][0]
        self.applied: list[tuple[str, int, str]] = rows("SELECT * FROM applied ORDER BY rowid")
        self.effects_of: dict[str | None, list[Effect]] = defaultdict(list)
        for effect in self.effects:
            self.effects_of[effect.job].append(effect)
        self.jobs_of: dict[str | None, list[Enqueued]] = defaultdict(list)
        for job in self.jobs.values():
            self.jobs_of[job.event].append(job)
        self.rows_of: dict[tuple[str, str], list[Accepted]] = defaultdict(list)
        for one in self.accepted:
            self.rows_of[one.scope, one.event].append(one)

    @property
    def processed(self) -> list[Accepted]:
        """The events that were accepted to be processed."""
        return [one for one in self.accepted if not one.flags]
