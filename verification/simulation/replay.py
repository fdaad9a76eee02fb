"""One schedule once more, with every step told."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from verification.simulation.campaign import theatre
from verification.simulation.errors import Violation
from verification.simulation.promises import check
from verification.simulation.running import RUNNING
from verification.simulation.schedules import Schedule, digest_of
from verification.simulation.stories import Listener, lines

if TYPE_CHECKING:
    from collections.abc import Iterator


class Story(NamedTuple):
    """What happened in a schedule, and how it ended."""

    seed: int
    steps: int
    digest: str
    lines: list[str]
    broken: Violation | None

    def text(self) -> Iterator[str]:
        """For people."""
        yield f"schedule {self.seed}"
        yield from self.lines
        yield f"{self.steps:,} steps, digest {self.digest}"
        if self.broken is None:
            yield "every promise was kept"
        else:
            yield f"BROKEN {self.broken}"

    def document(self) -> dict[str, Any]:
        """For programs."""
        broken = self.broken
        return {
            "seed": self.seed,
            "steps": self.steps,
            "digest": self.digest,
            "broken": None if broken is None else {"promise": broken.promise, "told": broken.told},
            "story": self.lines,
        }


def replayed(seed: int) -> Story:
    """Play a schedule, and listen."""
    with theatre() as database:
        schedule = Schedule(seed, database, told=True)
        world = schedule.world
        logger = logging.getLogger("duly")
        listener = Listener(world, lambda: RUNNING[-1] if RUNNING else "duly")
        logger.addHandler(listener)
        logger.setLevel(logging.INFO)
        broken = None
        try:
            schedule.play()
            check(schedule)
        except Violation as problem:
            broken = problem
        finally:
            logger.removeHandler(listener)
            logger.setLevel(logging.CRITICAL + 1)
        story = Story(seed, world.steps, digest_of(world), list(lines(world)), broken)
        world.take_apart()
    return story
