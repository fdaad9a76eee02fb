"""What is found after everything has come to rest, gathered from outside."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from pathlib import Path

    from verification.setups.places import Place

INBOX = "SELECT source, event_id FROM duly_events"
ENTRIES = "SELECT kind, event FROM entries"
LEFT_JOBS = "SELECT count(*) FROM duly_jobs WHERE state <> 'dead'"
LEFT_MESSAGES = "SELECT count(*) FROM duly_outbox WHERE state <> 'dead'"
DEAD = (
    "SELECT 'job ' || name FROM duly_jobs WHERE state = 'dead'"
    " UNION ALL SELECT 'message ' || destination FROM duly_outbox WHERE state = 'dead'"
)
# A job or a message that was done at once has one run in its history.
RUN_AGAIN = "SELECT name, attempts FROM duly_history WHERE attempts > 1"
# Seconds between two looks.
LOOK = 0.1


@dataclass(slots=True)
class Evidence:
    """What was found."""

    inbox: list[tuple[str, str]] = field(default_factory=list)
    """Source and event id of every row of duly's inbox."""
    entries: list[tuple[str, str]] = field(default_factory=list)
    """Kind and event of every row of the shop's table."""
    told: list[tuple[str, str]] = field(default_factory=list)
    """Message id and event of everything that the partner was told."""
    left: list[str] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)
    run_again: list[str] = field(default_factory=list)
    deaths: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    open_transactions: list[str] = field(default_factory=list)


def left_in(place: Place) -> list[str]:
    """What is still to be done."""
    jobs, messages = (place.rows(each)[0][0] for each in (LEFT_JOBS, LEFT_MESSAGES))
    counted = {"jobs": jobs, "messages": messages}
    return [f"{count} {what}" for what, count in counted.items() if count]


def wait_until_drained(place: Place, seconds: float) -> list[str]:
    """Wait until nothing is left to do; what is left when time is over."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            left = left_in(place)
        except psycopg.OperationalError as problem:  # the server is on its way back
            left = [f"no database: {problem}"]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(LOOK)


def gather(place: Place, partner: Path) -> Evidence:
    """Read every table, and what the partner was told."""
    lines = partner.read_text().splitlines() if partner.exists() else []
    told = [json.loads(line) for line in lines]
    return Evidence(
        inbox=[(source, event) for source, event in place.rows(INBOX)],
        entries=[(kind, event) for kind, event in place.rows(ENTRIES)],
        told=[(one["id"], one["event"]) for one in told],
        dead=[what for (what,) in place.rows(DEAD)],
        run_again=[f"{name}: {attempts} runs" for name, attempts in place.rows(RUN_AGAIN)],
    )
