"""The nemesis: kills, stops and restarts processes, crashes the database. Seeded, with a log."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from duly.core.errors import UsageError
from duly.demo import roles
from duly.demo.context import CounterIndex, wrapping_index
from duly.demo.databases import PostgresDatabase, SqliteDatabase
from duly.demo.processes import ProcessState, Role
from duly.demo.settings import PACE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from duly.demo.context import SharedCounters
    from duly.demo.processes import ProcessGroup, Slot
    from duly.demo.settings import Settings

# Seconds between two faults of a kind, on average.
KILL, STOP, FREEZE, ROLL, CRASH, HOLD = 0.6, 4.0, 11.0, 20.0, 25.0, 9.0
# Each kind comes so many times at least, also in a short storm.
TIMES = 3
# Which processes to kill, by weight.
TARGETS = {Role.WORKER: 6, Role.INGRESS: 3, Role.RELAY: 1}
# Seconds for which the lock of a SQLite file is held; in a long storm, now and then for longer than
# any writer waits.
HELD, HELD_LONG = (0.3, 1.5), (2.5, 4.0)
LASTING = 60.0
# For how many leases a process is stopped, and seconds until it may be stopped again.
LEASES, AWAKE = (1.6, 2.4), 3.0
# Seconds after which a process that was stopped with that lock is woken: it blocks all others.
TOO_LONG = 0.5


class Nemesis:
    """Decides by its dice which process to hit, and when. Time is in seconds since the start."""

    def __init__(
        self,
        settings: Settings,
        shared: SharedCounters,
        processes: ProcessGroup,
        database: object,
        log: Path,
    ) -> None:
        self._settings = settings
        self._shared = shared
        self._processes = processes
        self._database = database
        self._dice = settings.dice("nemesis")
        self._log = log.open("w")
        self._asleep: list[tuple[float, Slot]] = []
        self._rolling: list[Slot] = []
        # When each process that was stopped went on.
        self._woken: dict[Slot, float] = {}
        self.done: Counter[str] = Counter()
        length = settings.expected_seconds
        plans: list[tuple[float, Callable[[float], bool]]] = [
            (KILL, self._kill),
            (STOP, self._stop_at_work),
            (FREEZE, self._stop_any),
            (ROLL, self._roll),
        ]
        if isinstance(database, SqliteDatabase):
            plans.append((HOLD, self._hold))
        elif settings.cluster is not None:
            plans.append((CRASH, self._crash_database))
        self._plans = [(min(every, length / TIMES), act) for every, act in plans]
        self._due = [self._pause(every) for every, _ in self._plans]
        self.write_log(0.0, f"seed {settings.seed}")

    def act(self, now: float) -> None:
        """Inject the faults that are due."""
        for until, slot in list(self._asleep):
            if until <= now or slot.state is not ProcessState.STOPPED:
                self._asleep.remove((until, slot))
                self._wake(now, slot)
        self._wake_holders(now)
        self._continue_rolling(now)
        paced = now if self._settings.deliveries is None else self._shared[CounterIndex.SENT] / PACE
        for at, (every, act) in enumerate(self._plans):
            if paced >= self._due[at] and act(now):
                self._due[at] = paced + self._pause(every)

    @property
    def has_done_every_fault(self) -> bool:
        """Return True once every kind of fault was injected."""
        database = {"write lock held"} if isinstance(self._database, SqliteDatabase) else set()
        if self._settings.cluster is not None:
            database = {"database crash"}
        return self.done.keys() >= {"kill -9", "SIGSTOP", "SIGTERM", *database}

    def stop_faults(self, now: float) -> None:
        """End the faults: processes that are stopped go on."""
        for _, slot in self._asleep:
            self._wake(now, slot)
        self._asleep, self._rolling = [], []
        self.write_log(now, "quiet")
        self._log.close()

    def write_log(self, now: float, text: str) -> None:
        """Write a line of the log."""
        self._log.write(f"{now:9.3f} {text}\n")
        self._log.flush()

    def _note(self, now: float, what: str, slot: Slot, more: str = "") -> bool:
        self.done[what] += 1
        self.write_log(now, f"{what} {slot.name} ({slot.pid}){more}")
        return True

    def _kill(self, now: float) -> bool:
        [role] = self._dice.choices(list(TARGETS), list(TARGETS.values()))
        victims = self._processes.list_working(role)
        # One process of the role must be left, or the storm would measure how fast Python starts.
        if len(victims) < min(2, len(self._processes.with_roles(role))):
            return False
        victim = self._dice.choice(victims)
        self._note(now, "kill -9", victim)
        self._processes.kill(victim)
        return True

    def _stop_at_work(self, now: float) -> bool:
        """Stop a worker while it wraps a gift: it will come back with a lost lease."""
        workers = self._processes.list_working(Role.WORKER)
        return self._stop(now, [one for one in workers if self._shared[wrapping_index(one.number)]])

    def _stop_any(self, now: float) -> bool:
        return self._stop(now, self._processes.list_working(*TARGETS))

    def _stop(self, now: float, candidates: list[Slot]) -> bool:
        """Stop a process until its leases are lost, and others had the time to take them."""
        victims = [slot for slot in candidates if now - self._woken.get(slot, -AWAKE) >= AWAKE]
        if not victims or len(self._asleep) > 1:
            return False
        victim = self._dice.choice(victims)
        length = self._settings.lost_after * self._dice.uniform(*LEASES)
        self._note(now, "SIGSTOP", victim, f" for {length:.1f} s")
        self._processes.stop(victim)
        self._asleep.append((now + length, victim))
        victim.since = now
        return True

    def _wake_holders(self, now: float) -> None:
        """Wake a process that was stopped with SQLite's write lock: all others would wait."""
        if not self._asleep or not isinstance(self._database, SqliteDatabase):
            return
        writer = self._database.writer()
        for _, slot in self._asleep:
            if slot.pid == writer and now - slot.since > TOO_LONG:
                self.write_log(now, f"{slot.name} has the write lock")
                self._wake(now, slot)

    def _wake(self, now: float, slot: Slot) -> None:
        if slot.state is ProcessState.STOPPED:
            self._woken[slot] = now
            self.write_log(now, f"SIGCONT {slot.name} ({slot.pid})")
            self._processes.resume(slot)

    def _roll(self, now: float) -> bool:
        """Restart all processes, one after the other, as a deploy does."""
        if self._rolling:
            return False
        self.done["rolling restart"] += 1
        self.write_log(now, "rolling restart begins")
        self._rolling = self._processes.with_roles(Role.INGRESS, Role.WORKER, Role.RELAY)
        return True

    def _continue_rolling(self, now: float) -> None:
        ending = any(
            slot.state is ProcessState.ENDING for slot in self._processes.with_roles(*TARGETS)
        )
        while self._rolling and not ending:
            slot = self._rolling.pop(0)
            if self._processes.is_working(slot):
                self._note(now, "SIGTERM", slot)
                self._processes.terminate(slot)
                return

    def _crash_database(self, now: float) -> bool:
        assert isinstance(self._database, PostgresDatabase)  # noqa: S101  # or it is not planned
        try:
            pid = self._database.crash()
        except (UsageError, ProcessLookupError):  # it is still down from the last time
            return False
        self.done["database crash"] += 1
        self.write_log(now, f"database crash: SIGQUIT to the server ({pid})")
        return True

    def _hold(self, now: float) -> bool:
        assert isinstance(self._database, SqliteDatabase)  # noqa: S101  # or it is not planned
        long = self._dice.random() < 0.25 and self._settings.expected_seconds > LASTING
        seconds = self._dice.uniform(*(HELD_LONG if long else HELD))
        self.done["write lock held"] += 1
        self.write_log(now, f"write lock held for {seconds:.1f} s")
        path = self._database.path
        self._processes.start_once(
            "holder", partial(roles.hold_write_lock, path=path, seconds=seconds)
        )
        return True

    def _pause(self, average: float) -> float:
        return self._dice.uniform(0.5 * average, 1.5 * average)
