"""The command ``duly``: finds the command asked for, runs it, and turns errors into one line.

Only the standard library, so that it works with the core alone. To add a command, write a module
with the shape of `Command` under ``commands`` and name it in ``COMMANDS``.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
from typing import TYPE_CHECKING, NoReturn, Protocol

import duly
from duly._kernel.errors import DulyError, Misuse
from duly.tools.commands import (
    dead,
    demo,
    forget,
    init,
    jobs,
    migrate,
    outbox,
    prove,
    prune,
    relay,
    replay,
    resolve,
    send,
    serve,
    storm,
    worker,
)
from duly.tools.output import one_line, without_passwords
from duly.tools.suggestions import UNRECOGNIZED, without_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FAILED, USAGE = 1, 2
# What a shell reports for a program that was ended by SIGINT or SIGPIPE.
INTERRUPTED, NOBODY_READS = 130, 141

EXAMPLES = """\
examples:
  duly init                                  write a small app to start from
  duly migrate postgresql://shop@db/shop     make or update duly's tables
  duly migrate sqlite:///shop.db --check     only ask whether they are up to date
  DULY_URL=sqlite:///shop.db duly prune      forget claims whose time is over
  duly serve shop:app                        receive deliveries over HTTP, run jobs, send messages
  duly worker shop:app                       only run jobs
  duly jobs shop:app                         how much work there is, and who does it
  duly dead shop:app                         jobs that were given up, and why
  duly replay shop:app --since 2h            let them run again
  duly relay shop:app                        only send messages
  duly outbox shop:app                       what is to be sent, and what was given up
  duly send stripe --concurrent 200          the same signed event, 200 times at one instant
  duly prove shop:app --event paid.json      kill your own handler at each step, and compare
  duly demo                                  20 s of kills on SQLite, and the books
  duly storm postgresql://shop@db/test       the same, as long and as hard as you like

`duly COMMAND --help` tells more. The exit code is 0 for success, 1 for a failure and 2 for a
command that cannot work as written."""


class Command(Protocol):
    """The shape of a command's module."""

    SUMMARY: str
    EXAMPLES: str

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Declare what the command takes."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it, and return the exit code."""


COMMANDS: dict[str, Command] = {
    "dead": dead,
    "demo": demo,
    "forget": forget,
    "init": init,
    "jobs": jobs,
    "migrate": migrate,
    "outbox": outbox,
    "prove": prove,
    "prune": prune,
    "relay": relay,
    "replay": replay,
    "resolve": resolve,
    "send": send,
    "serve": serve,
    "storm": storm,
    "worker": worker,
}


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints never repeat a password or a secret."""

    commands: Mapping[str, Parser]

    def error(self, message: str) -> NoReturn:
        """Say how the command is used, and exit with 2."""
        options = [one for action in self._actions for one in action.option_strings]
        super().error(without_passwords(without_values(message, options)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    try:
        code = run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Python would try once more at its end, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOBODY_READS
    except Exception as problem:
        if not expected(problem):
            raise
        print(f"duly: {one_line(problem)}", file=sys.stderr)
        return USAGE if isinstance(problem, Misuse) else FAILED
    return code


def run(arguments: Sequence[str] | None) -> int:
    """Parse the command line and run what it names."""
    parser = command_line()
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        # Complained of by the parser of the command, which knows what it takes.
        refusing = parser.commands.get(parsed.command, parser)
        refusing.error(UNRECOGNIZED + " ".join(unknown))
    if parsed.command is None:
        parser.print_help(sys.stderr)
        return USAGE
    return COMMANDS[parsed.command].run(parsed)


def command_line() -> Parser:
    """The parser of all commands."""
    parser = Parser(
        prog="duly",
        description="Webhooks and background jobs that are safe to retry.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        # An abbreviation that works today would be ambiguous after the next option.
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"duly {duly.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    parser.commands = commands.choices
    for name, command in COMMANDS.items():
        command.add(
            commands.add_parser(
                name,
                help=command.SUMMARY,
                description=command.SUMMARY,
                epilog=command.EXAMPLES,
                formatter_class=argparse.RawDescriptionHelpFormatter,
                allow_abbrev=False,
            )
        )
    return parser


def expected(problem: Exception) -> bool:
    """Whether an error speaks of the world: duly's own, the system's, or what a database said.

    Drivers are told by the SQLSTATE they carry, so that none has to be imported here.
    """
    return isinstance(problem, DulyError | OSError | sqlite3.Error) or hasattr(problem, "sqlstate")
