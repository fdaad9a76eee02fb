"""The operator: when all is quiet, replays what died of the faults and not of itself.

A job that was lost with five workers is dead, whoever's fault that was: duly cannot tell one that
kills its process from one that stood beside it five times. A person can, and has `replay` for it.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import duly
from duly.core.retry import RESCUE_LIMIT
from duly.demo.events import Catalog
from duly.demo.sender_log import read_sender_log

if TYPE_CHECKING:
    from pathlib import Path

    from duly.demo.databases import PostgresDatabase, SqliteDatabase
    from duly.demo.settings import Settings

DEAD = (
    "SELECT CAST(job.id AS TEXT), job.name, event.event_id, job.rescues FROM {jobs} AS job"
    " JOIN {events} AS event ON event.id = job.event WHERE job.state = 'dead'"
)


def replay_victims(
    settings: Settings, database: SqliteDatabase | PostgresDatabase, books: Path
) -> int:
    """Replay jobs that lost all their workers by no fault of their own; how many."""
    catalog = Catalog(settings.seed, read_sender_log(books).calm_from)
    victims = [
        job
        for job, handler, event, rescues in database.query(DEAD)
        # What wraps a gift never kills; what handles an event kills if that is of the kind.
        if rescues >= RESCUE_LIMIT and (handler == "wrap" or not catalog.event(int(event[4:])).dies)
    ]
    if not victims:
        return 0
    with closing(duly.Duly(settings.url, schema=settings.schema)) as app:
        return sum(len(app.jobs.replay(job).ids) for job in victims)
