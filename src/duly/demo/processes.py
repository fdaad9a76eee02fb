"""The processes of a storm: started, killed, stopped, woken, told to end, and replaced."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Self

from duly.core.errors import DulyError
from duly.demo import context
from duly.demo.shared_counters import up_index
from duly.server.shutdown import REPLACE

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from duly.demo.context import StormContext

# Seconds that a process has to end which was told to, before it is killed.
ENDING = 25.0


class ProcessFailed(DulyError):
    """A process that must not end has ended; the message holds what it wrote."""


class ProcessState(Enum):
    """What a process is doing, as far as can be told from outside."""

    RUNNING = "at work"
    STOPPED = "stopped"
    ENDING = "told to end"


class Role(Enum):
    """What a process is for."""

    INGRESS = "ingress"
    WORKER = "worker"
    RELAY = "relay"
    ENVIRONMENT = "beside"  # the sender, the receiver downstream and the proxy: nobody hits these


@dataclass(eq=False, slots=True)
class Slot:
    """A place for one process after the other."""

    name: str
    role: Role
    work: Callable[..., int]
    number: int
    pid: int = 0
    state: ProcessState = ProcessState.RUNNING
    since: float = 0.0
    """When it was stopped, or told to end."""
    hit: bool = False
    """Whether it was killed from here."""
    ends: bool = False
    """Whether it may end by itself, when it has nothing more to do."""


@dataclass(slots=True)
class Faults:
    """What was done to the processes."""

    kills: int = 0
    fallen: int = 0
    """Processes that were killed by the event they handled."""
    stops: int = 0
    restarts: int = 0
    gave_up: int = 0
    """Processes that found no database when they began, or could not finish in time."""
    replaced: int = 0
    """Processes that asked to be replaced, because a handler hung in them."""
    failures: list[str] = field(default_factory=list)


class ProcessGroup:
    """All processes, while it is entered."""

    def __init__(self, storm_context: StormContext) -> None:
        self._context = storm_context
        self._slots: list[Slot] = []
        self.faults = Faults()
        self.ending = False
        # Seconds of processor time, by what processes are for.
        self.used: dict[str, float] = {}
        # Processes that were ended by SIGKILL, whoever sent it.
        self.killed: set[int] = set()

    def add(self, name: str, role: Role, work: Callable[..., int], *, ends: bool = False) -> None:
        """Start a process that is replaced whenever it ends, unless nobody may hit it."""
        slot = Slot(name, role, work, len(self._slots), ends=ends)
        self._slots.append(slot)
        self._start(slot)

    def start_once(self, name: str, work: Callable[[StormContext], int]) -> None:
        """Start a process that ends by itself, and is not replaced."""
        self._fork(name, work)

    def with_roles(self, *roles: Role) -> list[Slot]:
        """The processes of these roles."""
        return [slot for slot in self._slots if slot.role in roles]

    def list_working(self, *roles: Role) -> list[Slot]:
        """Those of these roles that are at work, and whom nobody has hit."""
        return [slot for slot in self.with_roles(*roles) if self.is_working(slot)]

    def is_working(self, slot: Slot) -> bool:
        """Whether a process is at work."""
        at_work = slot.state is ProcessState.RUNNING and not slot.hit and slot.pid != 0
        return at_work and self._context.shared[up_index(slot.number)] == slot.pid

    def kill(self, slot: Slot) -> None:
        """Kill with SIGKILL, wherever it is in its work."""
        slot.hit = True
        self.faults.kills += 1
        os.kill(slot.pid, signal.SIGKILL)

    def stop(self, slot: Slot) -> None:
        """Stop with SIGSTOP: the process stands still and does not know it."""
        slot.state = ProcessState.STOPPED
        self.faults.stops += 1
        os.kill(slot.pid, signal.SIGSTOP)

    def resume(self, slot: Slot) -> None:
        """Let a stopped process go on as if nothing had happened."""
        if slot.state is ProcessState.STOPPED:
            slot.state = ProcessState.RUNNING
            os.kill(slot.pid, signal.SIGCONT)

    def terminate(self, slot: Slot) -> None:
        """Tell a process to finish what it has begun, and end."""
        slot.state, slot.since = ProcessState.ENDING, time.monotonic()
        os.kill(slot.pid, signal.SIGTERM)

    def reap_and_restart(self) -> None:
        """Notice who has ended, and start another in its place."""
        while (found := reap_child()) is not None:
            pid, code, seconds = found
            for slot in self._slots:
                if slot.pid == pid:
                    purpose = slot.name.partition("-")[0]
                    self.used[purpose] = self.used.get(purpose, 0.0) + seconds
                    self._handle_exit(slot, code)
        for slot in self._slots:
            late = time.monotonic() - slot.since > ENDING
            if slot.state is ProcessState.ENDING and late and not slot.hit:
                self.faults.failures.append(f"{slot.name} was told to end and did not")
                self.kill(slot)

    def terminate_and_wait(self, *roles: Role) -> None:
        """Tell the processes of these roles to end, and wait until they have."""
        self.ending = True
        for slot in self.with_roles(*roles):
            if slot.pid:
                self.terminate(slot)
        while any(slot.pid for slot in self.with_roles(*roles)):
            self.reap_and_restart()
            time.sleep(0.01)
        self.ending = False

    def _handle_exit(self, slot: Slot, code: int) -> None:
        told, hit, pid = slot.state is ProcessState.ENDING, slot.hit, slot.pid
        begun, slot.pid = self._context.shared[up_index(slot.number)] == pid, 0
        if code == -signal.SIGKILL:
            self.killed.add(pid)
        if slot.role is Role.ENVIRONMENT:
            if code or not (self.ending or slot.ends):
                raise ProcessFailed(f"{slot.name} ended with code {code}:\n{self._log(slot)}")
            return
        if not hit:
            self._count_exit(slot, code, told=told, begun=begun)
        if not (self.ending and told):
            self._start(slot)

    def _count_exit(self, slot: Slot, code: int, *, told: bool, begun: bool) -> None:
        """How somebody ended whom nobody killed from here."""
        faults = self.faults
        if code == -signal.SIGKILL and slot.role is Role.WORKER:
            faults.fallen += 1
        elif code == REPLACE:
            faults.replaced += 1
        elif told and code in (0, -signal.SIGTERM):  # the latter where it had not begun yet
            faults.restarts += not self.ending
        elif code == context.GAVE_UP and (told or not begun):
            faults.gave_up += 1
        else:
            said = (self._log(slot).splitlines() or ["it said nothing"])[-1]
            faults.failures.append(f"{slot.name} ended with code {code}: {said}")

    def _start(self, slot: Slot) -> None:
        slot.state, slot.hit = ProcessState.RUNNING, False
        work = slot.work if slot.role is Role.ENVIRONMENT else partial(slot.work, slot=slot.number)
        slot.pid = self._fork(slot.name, work)

    def _fork(self, name: str, work: Callable[[StormContext], int]) -> int:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            context.run_process(self._context, name, work)
        return pid

    def _log(self, slot: Slot) -> str:
        path = self._context.file(f"{slot.name}.log")
        text = path.read_text(errors="replace") if path.exists() else ""
        return "\n".join(text.splitlines()[-20:])

    def __enter__(self) -> Self:
        gc.collect()
        gc.freeze()  # what is here already need not be looked at, and copied, in every child
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for slot in self._slots:
            if slot.pid:
                os.kill(slot.pid, signal.SIGKILL)
        for slot in self._slots:
            if slot.pid:
                os.waitpid(slot.pid, 0)
                slot.pid = 0


def reap_child() -> tuple[int, int, float] | None:
    """A child that has ended, its code and what it took of the processors; None where none has."""
    try:
        pid, status, used = os.wait4(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    seconds = used.ru_utime + used.ru_stime
    return (pid, os.waitstatus_to_exitcode(status), seconds) if pid else None
