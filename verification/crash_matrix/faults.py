"""What can happen at a statement boundary, and how each is brought about.

Errors of the server are real ones: it is asked to raise them in the place of the statement, so that
the transaction is as broken as it would be.
"""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from duly.stores.postgres.deadlines import NoAnswer

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.prove.steps import Step

# Seconds that a server says nothing: longer than an answer is waited for here.
STALLED = 2.5
# Seconds that one has to end which was told to, before its processes are killed.
ENDING = 1.0
RAISE = "DO $$ BEGIN RAISE EXCEPTION 'struck' USING ERRCODE = '{code}'; END $$"


class Fault(NamedTuple):
    """One fault: on which sides it makes sense, on which stores, and what it does."""

    name: str
    strike: Callable[[Step, World], None]
    before: bool = True
    after: bool = True
    sqlite: bool = True
    postgres: bool = True
    # Where PgBouncer stands in between, the server's process is not the client's.
    bouncer: bool = True
    colours: tuple[str, ...] = ("sync", "async")
    # One write lock: whoever stops inside a transaction of SQLite stops everybody (declared).
    inside_sqlite: bool = True
    # On whose connections; what is done to the process is done whoever talks to the database.
    drivers: tuple[str, ...] = ("psycopg", "sqlite3")
    quick: bool = True


class World(NamedTuple):
    """What a fault may reach beyond the statement."""

    # Cancels what the flow is doing.
    cancel: Callable[[], None]
    # The folder of the PostgreSQL server that may be struck down.
    cluster: Path | None
    # Kept to be given back when the case is over: processes that were stopped.
    stopped: Callable[[int], None]


def kill(step: Step, world: World) -> None:
    """No chance to tidy up."""
    os.kill(os.getpid(), signal.SIGKILL)


def pause(step: Step, world: World) -> None:
    """Stop here; whoever runs the case lets others finish, and then lets this one go on."""
    os.kill(os.getpid(), signal.SIGSTOP)


def rival(step: Step, world: World) -> None:
    """Stop here; another takes over, and is at work when this one goes on."""
    os.kill(os.getpid(), signal.SIGSTOP)


def cancel(step: Step, world: World) -> None:
    """The client hangs up, or the server is told to end."""
    world.cancel()


def reset(step: Step, world: World) -> None:
    """The connection breaks; the driver finds out by itself."""
    with socket.socket(fileno=os.dup(step.connection.pgconn.socket)) as wire:
        wire.shutdown(socket.SHUT_RDWR)


def lose_reply(step: Step, world: World) -> None:
    """The statement was carried out, and its answer is lost with the connection."""
    reset(step, world)
    step.connection.pgconn.finish()
    raise psycopg.OperationalError("server closed the connection unexpectedly")


def swallow_reply(step: Step, world: World) -> None:
    """The statement was carried out, and its answer never comes."""
    step.connection.pgconn.finish()
    raise NoAnswer("the server did not answer in time")


def stall(step: Step, world: World) -> None:
    """The server takes the statement and does not answer; it carries it out when it goes on.

    That is after whoever asked has given up: for ever would be a lock that nobody can take.
    """
    pid = step.connection.pgconn.backend_pid
    world.stopped(pid)
    os.kill(pid, signal.SIGSTOP)
    later = ["/bin/sh", "-c", f"sleep {STALLED}; kill -CONT {pid}"]
    subprocess.Popen(later, start_new_session=True, stderr=subprocess.DEVNULL)


def terminate(step: Step, world: World) -> None:
    """An operator ends the session."""
    info = step.connection.info
    with psycopg.connect(info.dsn, password=info.password or None, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [info.backend_pid])
        gone = "SELECT 1 FROM pg_stat_activity WHERE pid = %s"
        while other.execute(gone, [info.backend_pid]).fetchone():
            pass


def crash(step: Step, world: World) -> None:
    """The server goes down at once, and comes back."""
    assert world.cluster is not None
    pid = int((world.cluster / "data" / "postmaster.pid").read_text().split()[0])
    os.kill(pid, signal.SIGQUIT)
    patience = time.monotonic() + ENDING
    while Path(f"/proc/{pid}").exists():
        # It waits for whoever has just connected and said nothing: we, who stand still here.
        if time.monotonic() > patience:
            with suppress(OSError):  # gone in this moment
                for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                    os.kill(int(child), signal.SIGKILL)
        time.sleep(0.005)


def refusing(code: str) -> Callable[[Step, World], None]:
    """The server raises this error instead of carrying out the statement."""

    def refuse(step: Step, world: World) -> None:
        wire = step.connection.pgconn
        result = wire.exec_(RAISE.format(code=code).encode())
        if step.text == "COMMIT":  # a COMMIT that fails has ended its transaction
            wire.exec_(b"ROLLBACK")
        raise psycopg.errors.error_from_result(result)

    return refuse


def failing(message: str, code: int, *, ended: bool) -> Callable[[Step, World], None]:
    """SQLite fails instead of carrying out the statement; some errors end the transaction."""

    def fail(step: Step, world: World) -> None:
        connection: Any = step.connection
        if ended and connection.in_transaction:
            with suppress(sqlite3.Error):
                sqlite3.Connection.execute(connection, "ROLLBACK")
        problem = sqlite3.OperationalError(message)
        problem.sqlite_errorcode = code
        raise problem

    return fail


ONLY_SQLITE: dict[str, Any] = {"postgres": False, "bouncer": False, "after": False}
ONLY_POSTGRES: dict[str, Any] = {"sqlite": False}
ERRORS = {
    "serialization": "40001",
    "deadlock": "40P01",
    "statement-timeout": "57014",
    "lock-timeout": "55P03",
    "disk-full": "53100",
}
ANY = ("psycopg", "sqlite3", "asyncpg")
FAULTS = {
    fault.name: fault
    for fault in (
        Fault("kill", kill, drivers=ANY),
        Fault("pause", pause, inside_sqlite=False, drivers=ANY),
        Fault("rival", rival, inside_sqlite=False, drivers=ANY),
        Fault("cancel", cancel, colours=("async",), drivers=ANY),
        Fault("reset", reset, after=False, **ONLY_POSTGRES),
        Fault("reply-lost", lose_reply, before=False, **ONLY_POSTGRES),
        Fault("black-hole", stall, after=False, sqlite=False, bouncer=False, quick=False),
        Fault("answer-swallowed", swallow_reply, before=False, **ONLY_POSTGRES),
        Fault("terminated", terminate, sqlite=False, bouncer=False),
        # After a statement only: before it is after the one before it.
        Fault("server-crash", crash, before=False, sqlite=False, bouncer=False, quick=False),
        # The pooler hands these errors on as they are: what follows is what follows without it.
        *(
            Fault(name, refusing(code), after=False, sqlite=False, bouncer=False)
            for name, code in ERRORS.items()
        ),
        Fault("full", failing("database or disk is full", 13, ended=False), **ONLY_SQLITE),
        Fault("io-error", failing("disk I/O error", 10, ended=True), **ONLY_SQLITE),
        Fault("busy", failing("database is locked", 5, ended=False), **ONLY_SQLITE),
    )
}
