"""A schedule as a story: who did what, in which order, for a person to read."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from verification.simulation.world import World

# How much of an id tells it from the others of a schedule.
TAIL = 6
# What a row says of itself, in this order, where it has it.
SAYS = ("id", "state", "epoch", "attempts", "rescues", "event_id", "destination", "held", "free")


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """What a statement found or changed, in a few words."""
    if not rows:
        return "no row"
    told = "; ".join(described(row) for row in rows[:3])
    more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
    return (told or f"{len(rows)} rows") + more


def described(row: Mapping[str, Any]) -> str:
    """One row."""
    names = set(row.keys())
    found = [f"{name} {short(row[name])}" for name in SAYS if name in names]
    if not found:
        found = [f"{name} {short(row[name])}" for name in row.keys()][:4]  # noqa: SIM118
    return ", ".join(found)


def short(value: object) -> str:
    """A value that fits on a line."""
    if isinstance(value, bytes):
        return value.hex()[-TAIL:]
    text = str(value)
    return text[-TAIL:] if len(text) == 36 else text[:40]


class Listener(logging.Handler):
    """What duly itself logs, as lines of the story."""

    def __init__(self, world: World, who: Any) -> None:
        super().__init__()
        self._world = world
        self._who = who

    def emit(self, record: logging.LogRecord) -> None:
        """Add a line."""
        self._world.tell(self._who(), f"says: {record.getMessage()}")


def lines(world: World) -> Iterator[str]:
    """The story, with the seconds since it began."""
    told = world.told or []
    start = told[0][0] if told else 0
    width = max((len(who) for _, who, _ in told), default=0)
    for now, who, what in told:
        yield f"{(now - start) / 1_000_000:9.4f} s  {who:<{width}}  {what}"
