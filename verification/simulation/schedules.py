"""One schedule, from its seed to its verdict: set the scene, play, let it be quiet, look."""

from __future__ import annotations

import hashlib
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from verification.simulation.actors import Actor, ReceiverActor, RelayActor, WorkerActor
from verification.simulation.callers import Books, CallerActor
from verification.simulation.errors import Endless
from verification.simulation.operators import Operators
from verification.simulation.promises import check
from verification.simulation.scripts import Script
from verification.simulation.senders import Post
from verification.simulation.world import World

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator
    from random import Random

    from verification.simulation.database import Database

# Steps between two looks at whether it is over.
LOOK = 4
# When the quiet begins at the latest, in steps and in seconds of the schedule.
LOUD_STEPS = 700
LOUD = 40 * 1_000_000
# How long what is left may take once nothing goes wrong any more.
QUIET = 30 * 60 * 1_000_000
OPEN = """SELECT (SELECT count(*) FROM duly_jobs WHERE state IN ('ready', 'leased'))
               + (SELECT count(*) FROM duly_outbox WHERE state IN ('ready', 'leased'))"""


class Verdict(NamedTuple):
    """What became of a schedule."""

    seed: int
    steps: int
    faults: Counter[str]
    seen: Counter[str]
    digest: str | None


class Schedule:
    """A world with everybody in it."""

    def __init__(self, seed: int, database: Database, *, told: bool = False) -> None:
        self.world = world = World(seed, database)
        if told:
            world.told = []
        database.begin_anew(world)
        dice = world.dice
        self.receivers = [
            ReceiverActor(world, f"receiver-{n + 1}") for n in range(some(dice, 0.67, 0.33))
        ]
        self.workers = [
            WorkerActor(world, f"worker-{n + 1}") for n in range(some(dice, 0.12, 0.68, 0.2))
        ]
        self.relays = [RelayActor(world, f"relay-{n + 1}") for n in range(some(dice, 0.5, 0.5))]
        self.books = Books()
        self.callers = [
            CallerActor(world, f"caller-{n + 1}", self.books)
            for n in range(2 if dice.random() < 0.25 else 0)
        ]
        self.actors: list[Actor] = [
            *self.receivers, *self.workers, *self.relays, *self.callers,
        ]  # fmt: skip
        world.nemesis.actors = self.actors
        self.post = Post(world, self.receivers)
        self.scene = world.scene
        self.operators = Operators(world)
        self.script = Script(dice, self.post, world.scene)

    def play(self) -> None:
        """Until all is over."""
        world = self.world
        until = world.now + LOUD
        while world.steps < LOUD_STEPS and world.now < until and not self.over:
            self._some_steps()
        world.tell("the world", "is quiet from now on")
        world.nemesis.stop()
        world.scene.quiet = True
        self._come_to_rest()
        if self.operators.press():
            self._come_to_rest()
        for actor in self.actors:
            actor.count()

    def _come_to_rest(self) -> None:
        until = self.world.now + QUIET
        while not self.over:
            self._some_steps()
            if self.world.now > until:
                raise Endless("what was accepted is neither done nor dead, long after the faults")

    def _some_steps(self) -> None:
        for _ in range(LOOK):
            self.world.step()

    @property
    def over(self) -> bool:
        """Whether nothing is left to do."""
        return (
            self.post.done
            and not self.operators.waiting
            and self.world.database.holder is None
            and not self.world.database.rows(OPEN)[0][0]
            and all(one.at_rest for one in self.actors)
        )


def some(dice: Random, *chances: float) -> int:
    """One, two or more of something, by their chances."""
    draw = dice.random()
    for number, chance in enumerate(chances, start=1):
        draw -= chance
        if draw < 0:
            return number
    return len(chances)


def played(seed: int, database: Database, *, digest: bool = False) -> Verdict:
    """Play one schedule; raises `Violation` where a promise is broken."""
    schedule = Schedule(seed, database)
    try:
        schedule.play()
        check(schedule)
        world = schedule.world
        return Verdict(
            seed, world.steps, world.faults, world.seen, digest_of(world) if digest else None
        )
    finally:
        schedule.world.take_apart()


def digest_of(world: World) -> str:
    """What two runs of a seed must have in common: every step, and when it was."""
    return hashlib.sha256(repr(world.trace).encode()).hexdigest()


@contextmanager
def silenced() -> Iterator[None]:
    """Duly's log of crashes and lost leases would be all that one sees."""
    loggers = [logging.getLogger(name) for name in ("duly", "asyncio")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
