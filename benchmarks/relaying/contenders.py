"""Who is measured, on which store, and by what name its rows go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Store = Literal["postgres", "sqlite"]
OURS = "duly"
MEASURES = ("relay", "stage", "end-to-end")
# What `pooled` has, and ours to one destination.
AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class Contender:
    """A process: a module of `players`, and what it takes part in."""

    name: str
    player: str
    store: Store
    measures: tuple[str, ...]


CONTENDERS = (
    Contender(OURS, "ours", "postgres", MEASURES),
    Contender("loop", "loop", "postgres", ("relay", "stage")),
    Contender("pooled", "pooled", "postgres", ("relay",)),
    Contender(f"{OURS}-sqlite", "ours", "sqlite", MEASURES),
    Contender("loop-sqlite", "loop_sqlite", "sqlite", ("relay", "stage")),
)
NAMES = tuple(contender.name for contender in CONTENDERS)
