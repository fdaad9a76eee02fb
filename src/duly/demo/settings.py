"""What one storm is: where, how large, how long, by which dice."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from pathlib import Path

# Where the tables of a storm are on PostgreSQL: apart from everything else, and dropped at the end.
SCHEMA = "duly_storm"
# How long a worker may be silent. Heartbeats come three times as often, on a machine that is busy.
LEASE = timedelta(seconds=1.5)
# How long one run of a handler may take; on SQLite a lease is that much longer.
TIMEOUT = timedelta(seconds=1.5)
# PostgreSQL has no common lock, and a row that a paused worker has locked may be waited for.
TIMEOUT_ON_POSTGRES = timedelta(seconds=10)
# How many deliveries stand for a second where a storm is as long as its deliveries: a slow machine
# then sees as many faults as a fast one, and not more.
PACE = 600


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that every process of a storm knows."""

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
        """Whether the database is a file."""
        return self.url.startswith("sqlite:")

    @property
    def schema(self) -> str | None:
        """Where the tables are, where a database has more than one place."""
        return None if self.on_sqlite else SCHEMA

    @property
    def timeout(self) -> timedelta:
        """How long a run of a handler may take."""
        return TIMEOUT if self.on_sqlite else TIMEOUT_ON_POSTGRES

    @property
    def expected_seconds(self) -> float:
        """How many seconds the storm lasts, on a machine that is fast enough."""
        return self.seconds if self.seconds is not None else (self.deliveries or 0) / PACE

    @property
    def lost_after(self) -> float:
        """Seconds after which the jobs of a silent worker are given to others."""
        return (LEASE + (self.timeout if self.on_sqlite else timedelta(0))).total_seconds()

    def table(self, name: str) -> str:
        """The name of a table, duly's or the storm's, as SQL needs it."""
        return name if self.schema is None else f"{self.schema}.{name}"

    def dice(self, purpose: str) -> Random:
        """Dice for one purpose, so that more of one thing does not change another."""
        return Random(f"{self.seed} {purpose}")  # noqa: S311 - repeatable, and no secret


def file_url(path: Path) -> str:
    """The address of a database file as `duly.Duly` wants it."""
    return "sqlite:///" + quote(str(path))
