"""Whoever kills and stops the workers: kills anybody at any instruction, stops those in a lease."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.tools.demo.crew import State

if TYPE_CHECKING:
    from random import Random

    from duly.tools.demo.crew import Crew, Worker

# Seconds between two kills, on average. A replacement needs a good tenth of a second to start:
# more kills would measure how fast Python starts.
KILL_EVERY = 0.3
# Seconds between two stops, on average, as soon as somebody holds a lease.
STOP_EVERY = 0.8
# Seconds a stop lasts: two to three leases, so that somebody else has taken over by then.
STOP_FOR = (1.0, 1.5)


class Nemesis:
    """Decides by its dice whom to hit and when. Time comes in as seconds."""

    def __init__(self, crew: Crew, dice: Random, now: float) -> None:
        self._crew = crew
        self._dice = dice
        self._next_kill = now + self._pause(KILL_EVERY)
        self._next_stop = now + self._pause(STOP_EVERY)
        self._asleep: list[tuple[float, Worker]] = []

    def act(self, now: float) -> None:
        """Do what is due."""
        for until, worker in list(self._asleep):
            if until <= now:
                self._wake(until, worker)
        if now >= self._next_kill:
            self._next_kill = now + self._pause(KILL_EVERY)
            self._kill()
        if now >= self._next_stop and self._stop(now):
            self._next_stop = now + self._pause(STOP_EVERY)

    def rest(self) -> None:
        """The faults are over: whoever is stopped goes on."""
        for until, worker in list(self._asleep):
            self._wake(until, worker)

    def _kill(self) -> None:
        victim = self._dice.choice(self._crew.workers)
        self._asleep = [(until, worker) for until, worker in self._asleep if worker is not victim]
        self._crew.kill(victim)

    def _stop(self, now: float) -> bool:
        """Stop somebody who holds a lease; at most half of the crew stands still."""
        leased = [worker for worker in self._crew.workers if worker.state is State.LEASED]
        if not leased or len(self._asleep) >= len(self._crew.workers) / 2:
            return False
        victim = self._dice.choice(leased)
        self._crew.stop(victim)
        self._asleep.append((now + self._dice.uniform(*STOP_FOR), victim))
        return True

    def _wake(self, until: float, worker: Worker) -> None:
        self._asleep.remove((until, worker))
        self._crew.wake(worker)

    def _pause(self, average: float) -> float:
        return self._dice.uniform(0.5 * average, 1.5 * average)
