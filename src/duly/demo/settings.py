"""The settings of one storm: where, how large, how long, by which seed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from pathlib import Path

# The schema of a storm's tables on PostgreSQL, dropped at the end.
SCHEMA = "duly_storm"
# How long a worker may miss its heartbeat, on a busy machine; heartbeats come three times as often.
LEASE = timedelta(seconds=1.5)
# How long one run of a handler may take; on SQLite a lease is that much longer.
TIMEOUT = timedelta(seconds=1.5)
# PostgreSQL has no common lock, but a handler may wait for a row that a paused worker has locked.
TIMEOUT_ON_POSTGRES = timedelta(seconds=10)
# Deliveries that count as a second where a storm is as long as its deliveries: so a slow machine
# sees as many faults as a fast one.
PACE = 600


@dataclass(frozen=True, slots=True)
class Settings:
    """What every process of a storm knows."""

    url: str
    folder: Path
    seed: int
    deliveries: int | None
    seconds: float | None
    workers: int = 4
    ingress: int = 2
    relays: int = 1
    cluster: Path | None = None
    keep: bool = False

    @property
    def on_sqlite(self) -> bool:
        """Return True if the database is a SQLite file."""
        return self.url.startswith("sqlite:")

    @property
    def schema(self) -> str | None:
        """Return the schema of the tables; None on SQLite."""
        return None if self.on_sqlite else SCHEMA

    @property
    def timeout(self) -> timedelta:
        """Return how long a run of a handler may take."""
        return TIMEOUT if self.on_sqlite else TIMEOUT_ON_POSTGRES

    @property
    def expected_seconds(self) -> float:
        """Return how many seconds the faults last on a fast machine."""
        return self.seconds if self.seconds is not None else (self.deliveries or 0) / PACE

    @property
    def lost_after(self) -> float:
        """Return the seconds after which the jobs of a silent worker are rescued."""
        return (LEASE + (self.timeout if self.on_sqlite else timedelta(0))).total_seconds()

    def table(self, name: str) -> str:
        """Return the name of a table for SQL."""
        return name if self.schema is None else f"{self.schema}.{name}"

    def dice(self, purpose: str) -> Random:
        """Return dice for one purpose, so that the draws of one purpose do not change another."""
        return Random(f"{self.seed} {purpose}")  # noqa: S311 - repeatable, and no secret


def file_url(path: Path) -> str:
    """Return the URL of a SQLite file."""
    return "sqlite:///" + quote(str(path))
