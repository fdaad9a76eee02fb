"""Processes for acts: a server that has imported what it can, and forks a child for each.

The server is a child of the prover. It has no threads and no connections, so that a fork of it is
as good as a new process, and much quicker.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import signal
import sys
import traceback
import warnings
from contextlib import suppress
from multiprocessing.connection import Pipe
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from duly.core.errors import UsageError
from duly.prove.asks import refuse_same_event
from duly.prove.child_main import InstrumentedApp, run_child_task
from duly.prove.clean_interpreter import exec_clean_interpreter
from duly.prove.databases.open_by_others import ProofProcesses
from duly.prove.interrupts import reset_signal_handlers
from duly.prove.loader import describe_app
from duly.prove.process_cleanup import end_started_by, started_by
from duly.prove.trace import names_by_statement

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from duly.prove.asks import Ask
    from duly.prove.child_main import ChildTask
    from duly.prove.loader import AppInfo, Load

# Seconds; a handler that takes longer is taken to hang.
PATIENCE = 60.0

# From linux/prctl.h.
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


class ProcessExit(NamedTuple):
    """How a process ended, or that it was stopped."""

    how: Literal["ended", "killed", "stopped"]
    # The exit code, or the number of the signal.
    code: int


class ForkServer:
    """The prover's side: orders processes and waits for them."""

    def __init__(self, load: Load, patience: float = PATIENCE) -> None:
        self._load = load
        self._patience = patience
        self._server = ForkServerProcess(load)
        self._server.start()

    def describe_app(self, asks: tuple[Ask, ...]) -> tuple[AppInfo, tuple[Ask, ...]]:
        """What there is to know of the application, and of what is delivered to it.

        Where its import leaves connections or threads behind, it is repeated in each process.
        """
        told, settled = self._ask_with_timeout("describe", asks)
        if told.inherited is not None:
            self._server.close()
            self._server = ForkServerProcess(self._load)
            self._server.start()
        return told, settled

    def start_child(self, act: ChildTask) -> int:
        """Start a process; return its id."""
        return int(self._server.ask("begin", act))

    def wait(self, process: int) -> ProcessExit:
        """Wait until it ends or is stopped; one that hangs is killed, and all others with it."""
        return self._ask_with_timeout("wait", process)  # type: ignore[no-any-return]

    def _ask_with_timeout(self, word: str, value: object) -> Any:
        try:
            return self._server.ask(word, value, patience=self._patience)
        except TimeoutError:
            self.close()
            raise UsageError(
                f"a run took longer than {self._patience:g} seconds: it hangs, or needs --patience"
            ) from None

    def resume(self, process: int) -> None:
        """Resume a stopped process and its forks."""
        for one in (*started_by(process), process):
            os.kill(one, signal.SIGCONT)

    @property
    def proof_processes(self) -> ProofProcesses:
        """All processes of the proof."""
        return ProofProcesses(os.getpid(), self._server.process)

    def end_children(self) -> None:
        """End what the processes of a case have left running; the next ones can be begun."""
        self._server.end_children()

    def close(self) -> None:
        """End the server, and every process that is left; when this returns, they are gone."""
        self._server.close()


class ForkServerProcess:
    """Forks on demand."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._stage = InstrumentedApp()
        self._line: Connection | None = None
        self.process = 0

    def start(self) -> None:
        """Begin, as a child of this process."""
        here, there = Pipe()
        self.process = fork_quietly()
        if self.process == 0:
            here.close()
            os.setsid()  # a group of its own: Ctrl-C is the prover's to hear
            reset_signal_handlers()
            # Who loses its parent becomes a child of this one, and is found when all must end.
            set_process_option(PR_SET_CHILD_SUBREAPER, 1)
            try:
                self._serve(there)
            finally:
                os._exit(0)
        there.close()
        self._line = here

    def ask(self, word: str, value: object = None, *, patience: float | None = None) -> Any:
        """Ask for something, and return the answer."""
        if self._line is None:
            raise RuntimeError("the server has not been started")
        self._line.send((word, value))
        return self.answer(patience)

    def answer(self, patience: float | None) -> Any:
        """The answer to what was asked last."""
        if self._line is None or not self._line.poll(patience):
            raise TimeoutError
        try:
            told = self._line.recv()
        except EOFError:
            raise UsageError("the process that imports the application has died") from None
        if isinstance(told, Exception):
            raise told
        return told

    def end_children(self) -> None:
        """End the processes that it has started."""
        if self._line is not None:  # once it is gone, its id may be another process's
            end_started_by(self.process)

    def close(self) -> None:
        """End the server and the processes that it has started, stopped or hanging ones, too."""
        if self._line is None:
            return
        end_started_by(self.process)
        self._line.close()
        self._line = None
        with suppress(ProcessLookupError):  # it may not have come so far
            os.killpg(self.process, signal.SIGKILL)
        os.kill(self.process, signal.SIGKILL)
        # It may have been about to start another one; until its end is waited for, no other process
        # can have its id.
        end_started_by(self.process)
        os.waitpid(self.process, 0)

    # In the child

    def _serve(self, line: Connection) -> None:
        os.dup2(2, 1)  # what the import prints is no part of the answer
        children: set[int] = set()
        while True:
            try:
                word, value = line.recv()
            except (EOFError, OSError):
                break
            line.send(self._handle_request(word, value, children))
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)

    def _handle_request(self, word: str, value: Any, children: set[int]) -> Any:
        try:
            if word == "describe":
                return self._describe_app(value)
            if word == "begin":
                child = self._fork_child(value)
                children.add(child)
                return child
            ending = wait_for_child(value)
            if ending.how != "stopped":
                children.discard(value)
            return ending
        except Exception as problem:
            return problem if isinstance(problem, UsageError) else UsageError(str(problem))

    def _describe_app(self, asks: tuple[Ask, ...]) -> tuple[AppInfo, tuple[Ask, ...]]:
        app, _ = self._stage.load(self._load)
        settled = tuple(ask.resolve(app) for ask in asks)
        refuse_same_event(settled, app)
        told = describe_app(app, settled), settled
        names_by_statement(app.store.names)  # read once, before the forks
        gc.freeze()  # or each child would copy the pages that it reads
        return told

    def _fork_child(self, act: ChildTask) -> int:
        child = fork_quietly()
        if child == 0:
            code = 1
            try:
                redirect_output(act)
                if act.fresh:
                    exec_clean_interpreter(self._load, act)
                run_child_task(self._stage, self._load, act)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                flush_output()
                os._exit(code)
        return child


def fork_quietly() -> int:
    """A fork; Python warns of threads, and the prover's own process may have some."""
    flush_output()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if process == 0:
        # A prover that is killed must leave no process that goes on writing to its databases.
        set_process_option(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    return process


def set_process_option(option: int, value: int) -> None:
    """Set an option of this process by prctl."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value)


def flush_output() -> None:
    """Flush output, so that a child does not print it again."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


def redirect_output(act: ChildTask) -> None:
    """Redirect what the application prints and logs to a file of the case."""
    file = os.open(act.file("output"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in (1, 2):
        os.dup2(file, number)
    # A test runner may have put something of its own in their place.
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    importlib.invalidate_caches()


def wait_for_child(process: int) -> ProcessExit:
    """Wait for a child that ends, is killed or is stopped."""
    _, status = os.waitpid(process, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        return ProcessExit("stopped", os.WSTOPSIG(status))
    if os.WIFSIGNALED(status):
        return ProcessExit("killed", os.WTERMSIG(status))
    return ProcessExit("ended", os.WEXITSTATUS(status))
