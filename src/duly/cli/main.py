"""The command ``duly``: finds the command asked for, runs it, and turns errors into one line.

Only the standard library, so that it works with the core alone. To add a command, write a module
with the shape of `Command` under ``commands`` and say in ``COMMANDS`` what it is for.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import duly
from duly.app.output import one_line, without_passwords
from duly.cli.suggestions import UNRECOGNIZED, without_values
from duly.core.errors import DulyError, StoreRefused, StoreUnavailable, UsageError

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

    EXAMPLES: str

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Declare what the command takes."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it, and return the exit code."""


# What each command is for. Its module is loaded when it is asked for, and no other.
COMMANDS = {
    "dead": "List dead letters: jobs that were given up. Show one, or discard it.",
    "demo": "Twenty seconds of webhooks while processes are killed; then the books.",
    "forget": "Forget an event, so that it is processed again when it is delivered again.",
    "init": "Write a small commented app to start from.",
    "jobs": "Count the jobs of each queue: ready, waiting, leased and dead; and who works.",
    "migrate": "Make duly's tables, or bring them to the schema of this version.",
    "outbox": "Count messages by destination, show one; list, replay or discard dead ones.",
    "prove": "Prove that a handler takes effect once, whatever happens to it.",
    "prune": "Remove claims, bodies and events whose time is over.",
    "relay": "Send the messages of an application: what was staged with tx.send and app.send.",
    "replay": "Let dead jobs run again: one, those that a filter chooses, or all.",
    "resolve": "Say whether an effect happened of which nobody knew, after you found out.",
    "send": "Send a genuine signed delivery, as the provider would.",
    "serve": "Serve an application: receive deliveries, run its jobs, send its messages.",
    "storm": "Try duly on this machine: deliver badly, kill, crash, and balance the books.",
    "worker": "Run the jobs of an application.",
}


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints never repeat a password or a secret."""

    commands: Mapping[str, Parser]

    def error(self, message: str) -> NoReturn:
        """Say how the command is used, and exit with 2."""
        options = [one for action in self._actions for one in action.option_strings]
        super().error(without_passwords(without_values(message, options)))


class CommandParser(Parser):
    """The parser of one command, which learns what the command takes when it is chosen."""

    name: str
    command: Command | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Load the command's module before the first word is read."""
        if self.command is None:
            self.command = load_command(self.name)
            self.epilog = self.command.EXAMPLES
            self.command.add(self)
        return super().parse_known_args(args, namespace)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    try:
        code = run_command(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Python would try once more at its end, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOBODY_READS
    except Exception as problem:
        if not is_expected(problem):
            raise
        print(f"duly: {one_line(problem)}{remedy(problem)}", file=sys.stderr)
        return USAGE if isinstance(problem, UsageError) else FAILED
    return code


def remedy(problem: Exception) -> str:
    """What the caller of a command can do where the database does not answer."""
    if isinstance(problem, StoreUnavailable) and not isinstance(problem, StoreRefused):
        return " (run the command again once the database answers)"
    return ""


def run_command(arguments: Sequence[str] | None) -> int:
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
    return load_command(parsed.command).run(parsed)


def load_command(name: str) -> Command:
    """The module of one command."""
    module: Command = import_module(f"duly.cli.{name}")
    return module


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
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", parser_class=CommandParser
    )
    parser.commands = commands.choices
    for name, summary in COMMANDS.items():
        added = commands.add_parser(
            name,
            help=summary,
            description=summary,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        added.name = name
    return parser


def is_expected(problem: Exception) -> bool:
    """Whether an error speaks of the world: duly's own, the system's, or what a database said.

    Drivers are told by the SQLSTATE they carry, so that none has to be imported here.
    """
    return isinstance(problem, DulyError | OSError | sqlite3.Error) or hasattr(problem, "sqlstate")
