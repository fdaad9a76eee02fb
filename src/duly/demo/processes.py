"""The processes of a storm: started, killed, stopped, resumed, terminated and replaced."""

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
from duly.demo.context import up_index
from duly.server.shutdown import REPLACE

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.demo.context import StormContext

# Seconds that a process may take to end after SIGTERM, before it is killed.
ENDING = 25.0


class ProcessFailed(DulyError):
    """A process that must not end has ended; the message holds its log."""


class ProcessState(Enum):
    """What a process is doing, as seen from outside."""

    RUNNING = "at work"
    STOPPED = "stopped"
    ENDING = "told to end"


class Role(Enum):
    """What a process is for."""

    INGRESS = "ingress"
    WORKER = "worker"
    RELAY = "relay"
    ENVIRONMENT = "environment"  # the sender, the receiver downstream and the proxy: never hit


@dataclass(eq=False, slots=True)
class Slot:
    """A place for one process, and for those that replace it."""

    name: str
    role: Role
    work: Callable[..., int]
    number: int
    pid: int = 0
    state: ProcessState = ProcessState.RUNNING
    since: float = 0.0
    """When it was stopped or terminated."""
    hit: bool = False
    """Whether this group killed it."""
    ends: bool = False
    """Whether it may end by itself."""


@dataclass(slots=True)
class Faults:
    """How processes ended."""

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
    """All processes of a storm; killed on exit."""

    def __init__(self, storm_context: StormContext) -> None:
        self._context = storm_context
        self._slots: list[Slot] = []
        self.faults = Faults()
        self.ending = False
        # By what the processes are for.
        self.cpu_seconds: dict[str, float] = {}
        # Processes that SIGKILL ended, from here or by an event.
        self.killed: set[int] = set()

    def add(self, name: str, role: Role, work: Callable[..., int], *, ends: bool = False) -> None:
        """Start a process that is replaced when it ends, unless it is of the environment."""
        slot = Slot(name, role, work, len(self._slots), ends=ends)
        self._slots.append(slot)
        self._start(slot)

    def start_once(self, name: str, work: Callable[[StormContext], int]) -> None:
        """Start a process that ends by itself, and is not replaced."""
        self._fork(name, work)

    def with_roles(self, *roles: Role) -> list[Slot]:
        """Return the processes of these roles."""
        return [slot for slot in self._slots if slot.role in roles]

    def list_working(self, *roles: Role) -> list[Slot]:
        """Return the processes of these roles that are at work and not hit."""
        return [slot for slot in self.with_roles(*roles) if self.is_working(slot)]

    def is_working(self, slot: Slot) -> bool:
        """Return True if a process is at work."""
        at_work = slot.state is ProcessState.RUNNING and not slot.hit and slot.pid != 0
        return at_work and self._context.shared[up_index(slot.number)] == slot.pid

    def kill(self, slot: Slot) -> None:
        """Kill a process with SIGKILL."""
        slot.hit = True
        self.faults.kills += 1
        os.kill(slot.pid, signal.SIGKILL)

    def stop(self, slot: Slot) -> None:
        """Stop a process with SIGSTOP, without its knowledge."""
        slot.state = ProcessState.STOPPED
        self.faults.stops += 1
        os.kill(slot.pid, signal.SIGSTOP)

    def resume(self, slot: Slot) -> None:
        """Let a stopped process go on."""
        if slot.state is ProcessState.STOPPED:
            slot.state = ProcessState.RUNNING
            os.kill(slot.pid, signal.SIGCONT)

    def terminate(self, slot: Slot) -> None:
        """Tell a process to drain and end."""
        slot.state, slot.since = ProcessState.ENDING, time.monotonic()
        os.kill(slot.pid, signal.SIGTERM)

    def reap_and_restart(self) -> None:
        """Replace processes that have ended."""
        while (found := reap_child()) is not None:
            pid, code, seconds = found
            for slot in self._slots:
                if slot.pid == pid:
                    purpose = slot.name.partition("-")[0]
                    self.cpu_seconds[purpose] = self.cpu_seconds.get(purpose, 0.0) + seconds
                    self._handle_exit(slot, code)
        for slot in self._slots:
            late = time.monotonic() - slot.since > ENDING
            if slot.state is ProcessState.ENDING and late and not slot.hit:
                self.faults.failures.append(f"{slot.name} was told to end and did not")
                self.kill(slot)

    def terminate_and_wait(self, *roles: Role) -> None:
        """Tell the processes of these roles to end, and wait for that."""
        self.ending = True
        for slot in self.with_roles(*roles):
            if slot.pid:
                self.terminate(slot)
        while any(slot.pid for slot in self.with_roles(*roles)):
            self.reap_and_restart()
            time.sleep(0.01)
        self.ending = False

    def _handle_exit(self, slot: Slot, code: int) -> None:
        terminated, hit, pid = slot.state is ProcessState.ENDING, slot.hit, slot.pid
        begun, slot.pid = self._context.shared[up_index(slot.number)] == pid, 0
        if code == -signal.SIGKILL:
            self.killed.add(pid)
        if slot.role is Role.ENVIRONMENT:
            if code or not (self.ending or slot.ends):
                raise ProcessFailed(f"{slot.name} ended with code {code}:\n{self._log(slot)}")
            return
        if not hit:
            self._count_exit(slot, code, terminated=terminated, begun=begun)
        if not (self.ending and terminated):
            self._start(slot)

    def _count_exit(self, slot: Slot, code: int, *, terminated: bool, begun: bool) -> None:
        """Count how a process ended that this group did not kill."""
        faults = self.faults
        if code == -signal.SIGKILL and slot.role is Role.WORKER:
            faults.fallen += 1
        elif code == REPLACE:
            faults.replaced += 1
        elif terminated and code in (0, -signal.SIGTERM):  # the latter where it had not begun yet
            faults.restarts += not self.ending
        elif code == context.GAVE_UP and (terminated or not begun):
            faults.gave_up += 1
        else:
            last = (self._log(slot).splitlines() or ["it logged nothing"])[-1]
            faults.failures.append(f"{slot.name} ended with code {code}: {last}")

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
        gc.freeze()  # or every child would touch, and so copy, what is here already
        return self

    def __exit__(self, *_: object) -> None:
        for slot in self._slots:
            if slot.pid:
                os.kill(slot.pid, signal.SIGKILL)
        for slot in self._slots:
            if slot.pid:
                os.waitpid(slot.pid, 0)
                slot.pid = 0


def reap_child() -> tuple[int, int, float] | None:
    """Return the pid, exit code and processor seconds of a child that has ended, or None."""
    try:
        pid, status, usage = os.wait4(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    seconds = usage.ru_utime + usage.ru_stime
    return (pid, os.waitstatus_to_exitcode(status), seconds) if pid else None
