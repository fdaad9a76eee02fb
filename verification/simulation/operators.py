"""Two operators who press replay at the same time, after the handlers were mended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.jobs.dead import JobSelection, plan_of
from duly.ledger.replay import replay
from verification.simulation.errors import Violation
from verification.simulation.stores import SimulatedStore

if TYPE_CHECKING:
    from verification.simulation.processes import Process
    from verification.simulation.world import World

DEAD = "SELECT count(*) FROM duly_jobs WHERE state = 'dead'"


class Operators:
    """What they asked for, and what they were told."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._wanted = world.dice.random() < 0.6
        self.ids: list[str] = []
        self.waiting = 0
        # Whether every dead letter was made ready again.
        self.replayed = False

    def press(self) -> bool:
        """Replay what is dead, twice at once; whether there was anything to do."""
        if not self._wanted or self.replayed or not self._world.database.rows(DEAD)[0][0]:
            return False
        self.replayed = True
        self._world.tell("operators", "mend the handlers, and replay all dead letters, twice")
        for plan in self._world.scene.plans.values():
            plan.heal()
        for name in ("operator-1", "operator-2"):
            self.waiting += 1
            process = self._world.process(name)
            process.soon(process.loop.create_task, self._replay(process))
            process.run()
        return True

    async def _replay(self, process: Process) -> None:
        plan = plan_of(JobSelection(), None, dry_run=False, everything=True)
        done = await replay(SimulatedStore(process, again=True).async_runner, plan)
        self.waiting -= 1
        twice = set(done.ids) & set(self.ids)
        if twice:
            told = f"two operators replayed {', '.join(sorted(twice))}"
            self._world.broken = Violation("I7", told)
        self.ids += done.ids
        self._world.seen["jobs replayed"] += len(done.ids)
