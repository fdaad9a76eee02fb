"""Who is measured, with which library, and by what name its rows go."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

OURS = "duly"
BULK: Final = "update-bulk"
MEASURES = ("drain", "update", BULK, "enqueue", "latency")
# What every library can do; only duly's handlers take many jobs in one transaction.
COMMON = tuple(measure for measure in MEASURES if measure != BULK)


@dataclass(frozen=True, slots=True)
class Library:
    """Somebody else's queue, as pip knows it, in the version that its module was written for."""

    requirements: tuple[str, ...]
    python: tuple[int, int] = (3, 11)


@dataclass(frozen=True, slots=True)
class Contender:
    """A worker process: a module of `players`, its settings, and what it takes part in."""

    name: str
    player: str
    settings: dict[str, int] = field(default_factory=dict)
    measures: tuple[str, ...] = COMMON
    # It gets one job for so many of the others': a drain of the slowest takes minutes.
    one_for: int = 1
    # Seconds between two looks of a worker that nothing wakes.
    polls: float = 0.0

    @property
    def library(self) -> Library | None:
        """What must be installed for it; None for what runs under our own Python."""
        return LIBRARIES.get(self.player)

    def counts(self, of_all: dict[str, int]) -> dict[str, int]:
        """How much of each it has to do; as many samples of a latency as the others."""
        return {
            what: number if what == "samples" else max(1, number // self.one_for)
            for what, number in of_all.items()
        }


DRIVER = "psycopg[binary,pool]==3.3.8"
LIBRARIES = {
    "procrastinate": Library(("procrastinate==3.10.0", DRIVER)),
    "pgqueuer": Library(("pgqueuer[asyncpg]==1.6.0", DRIVER)),
    "oban": Library(("oban==0.7.0", DRIVER), (3, 12)),
    "dbos": Library(("dbos==3.3.0", DRIVER)),
    "chancy": Library(("chancy==0.26.0", DRIVER)),
}
CONTENDERS = (
    Contender(OURS, "ours", {"at_once": 100, "connections": 22}, MEASURES),
    Contender("ceiling-batch", "ceilings", {"connections": 1}, ("drain",)),
    Contender("ceiling-tx", "ceilings", {"connections": 20}, ("update",)),
    Contender("pgqueuer-10", "pgqueuer", {"batch": 10, "connections": 20}),
    Contender("pgqueuer-100", "pgqueuer", {"batch": 100, "connections": 20}),
    Contender("oban", "oban", {"at_once": 100, "connections": 20}),
    Contender("chancy", "chancy", {"at_once": 100, "connections": 20}),
    Contender("procrastinate", "procrastinate", {"at_once": 20}),
    Contender("dbos", "dbos", {"at_once": 100, "connections": 20}, one_for=10, polls=1.0),
)
NAMES = tuple(contender.name for contender in CONTENDERS)
