"""The life of the child that is struck: it prepares, and then runs the flow into the trap."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING, NamedTuple

import asyncpg
import psycopg

import duly
from duly.jobs.invoke import HandlerFailed
from duly.prove.steps import watching
from duly.stores.postgres import runners
from verification.crash_matrix.bench import Bench
from verification.crash_matrix.faults import FAULTS, World
from verification.crash_matrix.leaks import leaks_of
from verification.crash_matrix.traps import Boundary, Trap

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from duly.prove.steps import Step
    from verification.crash_matrix.flows import Flow
    from verification.crash_matrix.places import Place
    from verification.crash_matrix.shop import Terms

# How long a server that says nothing is waited for; duly's own three seconds and more would make
# such cases long without making them any different.
ANSWER = 1.0
# What may get out of a flow; and of one that is the user's own, errors as its driver has them, or
# that its COMMIT failed.
ALLOWED: tuple[type[BaseException], ...] = (duly.errors.DulyError, asyncio.CancelledError)
OF_DRIVERS: tuple[type[BaseException], ...] = (
    HandlerFailed,
    psycopg.Error, sqlite3.Error, asyncpg.PostgresError, asyncpg.InterfaceError, ConnectionError
)  # fmt: skip


class Blow(NamedTuple):
    """Where it is struck, by what, and the server that may be struck down."""

    at: Boundary
    fault: str
    cluster: Path | None


def live(flow: Flow, terms: Terms, place: Place, blow: Blow | None) -> None:
    """Run the flow; tell the boundaries that it came to where nothing strikes it."""
    runners.bounded_wait = shortly
    journal = terms.journal
    world = World(cancel=lambda: None, cluster=blow and blow.cluster, stopped=note_stopped(terms))

    def strike(step: Step) -> None:
        assert blow is not None
        journal.write("struck", at=str(blow.at), fault=blow.fault)
        FAULTS[blow.fault].strike(step, world)

    trap = Trap(blow and blow.at, strike)
    allowed = ALLOWED + (OF_DRIVERS if flow.theirs else ())
    with watching(trap):
        held = terms._replace(gate=lambda: flow.gate(bench, place))
        bench = Bench(held, flow.make)

        async def whole() -> None:
            await flow.prepare(bench, place)
            nonlocal world
            world = world._replace(cancel=canceller(bench))
            trap.arm()
            try:
                await flow.run(bench, place)
                journal.write("completed")
            finally:
                for leak in await leaks_of(bench, trap.connections):
                    journal.write("leak", what=leak)

        try:
            bench.run(whole())
        except allowed as problem:
            journal.write("raised", problem=f"{type(problem).__name__}: {problem}")
        except BaseException as problem:
            journal.write("odd", problem=f"{type(problem).__name__}: {problem}")
    if blow is None:
        for at, inside, driver in trap.passed:
            journal.write("passed", at=[*at, inside, driver])


def note_stopped(terms: Terms) -> Callable[[int], None]:
    """Write down which process of the server was stopped, so that somebody lets it go on."""
    return lambda pid: terms.journal.write("stopped", pid=pid)


def canceller(bench: Bench) -> Callable[[], None]:
    """Cancels what the flow is doing, from whatever thread."""
    if bench.is_sync:
        return lambda: None
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None

    def cancel() -> None:
        loop.call_soon_threadsafe(task.cancel)

    return cancel


def shortly(usual: float, within: float | None) -> float:
    """How long an answer is waited for here."""
    return min(usual, ANSWER) if within is None else min(usual, within, ANSWER)
