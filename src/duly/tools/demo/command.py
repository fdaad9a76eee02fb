"""The command: options in, a run, a report, and 0 if every line of the audit balances."""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from random import Random, SystemRandom
from typing import TYPE_CHECKING

import duly
from duly.tools.demo.audit import audit, read
from duly.tools.demo.crew import Crew, WorkerFailed
from duly.tools.demo.display import display_for
from duly.tools.demo.events import Stream
from duly.tools.demo.line import Line
from duly.tools.demo.nemesis import Nemesis
from duly.tools.demo.place import Place, new_place
from duly.tools.demo.play import Play
from duly.tools.demo.report import marks, story, table, verdict
from duly.tools.demo.sender import Sender
from duly.tools.demo.signals import Quit, Signals

if TYPE_CHECKING:
    from collections.abc import Sequence


DESCRIPTION = """\
Processes race for the same events on one SQLite file. Each event is delivered several times; some
workers are killed with kill -9 and some are stopped past their lease. At the end what was sent is
compared with what took effect: exit code 0 if every line balances, 1 if one does not."""

# Deliveries on their way for each worker: enough that none has to wait for the sender.
WINDOW = 8


@dataclass(frozen=True, slots=True)
class Options:
    """What the command was asked for."""

    processes: int
    seconds: float
    seed: int
    keep: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration and return its exit code."""
    options = parsed(arguments)
    # Settings of the user's own application would move the tables of this one.
    for name in ("DULY_PREFIX", "DULY_SCHEMA"):
        os.environ.pop(name, None)
    try:
        with Signals() as signals, new_place(keep=options.keep) as where:
            return demonstrate(options, where, signals)
    except WorkerFailed as failure:
        print(f"duly demo: {failure}", file=sys.stderr)
        return 1
    except Quit as quitting:
        return quitting.code
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def parsed(arguments: Sequence[str] | None) -> Options:
    """The options, or a message on how to write them."""
    parser = argparse.ArgumentParser(
        prog="python -m duly.tools.demo",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--processes", type=int, default=8, metavar="N", help="workers, 2 to 64 (default: 8)")
    add("--seconds", type=float, default=20.0, metavar="S", help="how long (default: 20)")
    add(
        "--seed",
        type=int,
        metavar="N",
        help="repeats the events and the times of the faults, not how processes meet",
    )
    add("--keep", action="store_true", help="keep the database file and say where it is")
    given = parser.parse_args(arguments)
    if not 2 <= given.processes <= 64:
        parser.error("--processes must be 2 to 64")
    if not 0.1 <= given.seconds <= 3600:
        parser.error("--seconds must be 0.1 to 3600")
    seed = SystemRandom().randrange(10_000) if given.seed is None else given.seed
    return Options(given.processes, given.seconds, seed, given.keep)


def demonstrate(options: Options, where: Place, signals: Signals) -> int:
    """Run, audit, report."""
    print(opening(options), flush=True)
    display = display_for(sys.stdout)
    sender = Sender(Stream(dice(options, "events")), window=WINDOW * options.processes)
    with closing(Line()) as line, Crew(where, line, options.processes) as crew, closing(display):
        nemesis = Nemesis(crew, dice(options, "faults"), time.monotonic())
        play = Play(line, sender, crew, display)
        play.storm(nemesis, length=options.seconds, hurried=signals.hurried)
        play.drain(length=options.seconds)
    with closing(sqlite3.connect(where.database)) as connection:
        found = read(connection)
    books, faults = sender.books(), crew.faults
    checks = audit(found, books, faults)
    display.page([*table(checks, marks(sys.stdout)), *story(found, books, faults)])
    if where.keep:
        display.page([f"Kept: {where.database}"])
    display.page([verdict(checks, len(books.events), faults.kills)])
    return 0 if all(check.balances for check in checks) else 1


def opening(options: Options) -> str:
    """The first line: enough to run the same again."""
    return (
        f"duly {duly.__version__}: {options.processes} processes, one SQLite file, "
        f"{options.seconds:g} seconds, seed {options.seed}"
    )


def dice(options: Options, purpose: str) -> Random:
    """Dice for one purpose, so that more faults do not change the events."""
    return Random(f"{options.seed} {purpose}")  # noqa: S311 - repeatable, and no secret
