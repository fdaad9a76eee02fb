"""The command ``duly``: loads the module of one command, runs it, and prints errors as one line.

Only the standard library, so that it works with the core alone. To add a command, write a module
of this package with the shape of `Command`, and describe it in ``COMMANDS``.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import duly
from duly.app.output import one_line
from duly.cli.parser import UNRECOGNIZED, Parser
from duly.core.errors import DulyError, StoreRefused, StoreUnavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FAILED, USAGE = 1, 2
# What a command line calls a parameter, where that is no option of its name.
SHELL_WORDS = {"payload": "the file"}
# What a shell reports for a program that SIGINT or SIGPIPE has ended.
INTERRUPTED, BROKEN_PIPE = 130, 141

EXAMPLES = """\
examples:
  duly init                                  write a small app to start from
  duly migrate postgresql://shop@db/shop     make or update duly's tables
  duly migrate sqlite:///shop.db --check     only ask whether they are up to date
  DULY_URL=sqlite:///shop.db duly prune      forget claims whose time is over
  duly serve shop:app                        receive deliveries over HTTP, run jobs, send messages
  duly worker shop:app                       only run jobs
  duly jobs shop:app                         count the jobs, and name the workers
  duly jobs dead shop:app                    list jobs that were given up, and why
  duly jobs replay shop:app --since 2h       let them run again
  duly relay shop:app                        only send messages
  duly outbox shop:app                       count messages to be sent and given up
  duly deliver stripe --concurrent 200       the same signed event, 200 times at one instant
  duly prove shop:app --event paid.json      kill your own handler at each step, and compare
  duly demo                                  20 seconds of kills on SQLite, then the ledger
  duly demo postgresql://shop@db/test        the same on PostgreSQL

`duly COMMAND --help` tells more. The exit code is 0 for success, 1 for a failure and 2 for a
command that cannot work as written."""


class Command(Protocol):
    """The shape of a command's module."""

    EXAMPLES: str

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Declare what the command takes."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the command, and return the exit code."""


# What each command is for. Its module is loaded when it is asked for, and no other.
COMMANDS = {
    "deliver": "Send a genuine signed delivery, as the provider would.",
    "demo": "Deliver webhooks badly while processes are killed; then compare what took effect.",
    "effects": "Record whether an unknown effect of a job happened.",
    "forget": "Forget an event, so that it is processed again when it is delivered again.",
    "init": "Write a small commented app to start from.",
    "jobs": "Count jobs by queue; list, show, replay or discard dead ones.",
    "migrate": "Make duly's tables, or bring them to the schema of this version.",
    "outbox": "Count messages by destination, show one; list, replay or discard dead ones.",
    "prove": "Prove that a handler takes effect once, by killing it at every step.",
    "prune": "Remove claims, bodies and events whose time is over.",
    "relay": "Send the messages of an application: what was staged with tx.send and app.send.",
    "serve": "Serve an application: receive deliveries, run its jobs, send its messages.",
    "worker": "Run the jobs of an application.",
}
# What commands were called before, and are called now: docs/upgrading.md.
RENAMED = {
    "dead discard": "jobs discard",
    "dead show": "jobs show",
    "dead": "jobs dead",
    "replay": "jobs replay",
    "resolve": "effects resolve",
    "send": "deliver",
    "storm": "demo",
}


class CommandLine(Parser):
    """The parser of the whole command line."""

    commands: Mapping[str, Parser]


class CommandParser(Parser):
    """The parser of one command, which learns its options when the command is chosen."""

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
        code = run_command(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Python would flush once more when it exits, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception as problem:
        if not is_expected(problem):
            raise
        print(f"duly: {one_line(in_shell_words(problem))}{remedy(problem)}", file=sys.stderr)
        return USAGE if isinstance(problem, UsageError) else FAILED
    return code


def in_shell_words(problem: Exception) -> Exception:
    """The error, with options where its message names parameters."""
    if not isinstance(problem, UsageError):
        return problem
    return UsageError(problem.in_words(lambda one: SHELL_WORDS.get(one.name, f"--{one.name}")))


def remedy(problem: Exception) -> str:
    """Return what to do where the database does not answer."""
    if isinstance(problem, StoreUnavailable) and not isinstance(problem, StoreRefused):
        return " (run the command again once the database answers)"
    return ""


def run_command(arguments: Sequence[str]) -> int:
    """Parse the command line and run the command that it names."""
    refuse_renamed(arguments)
    parser = command_line()
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        # The parser of the command reports it: it knows the options that may have been meant.
        refusing = parser.commands.get(parsed.command, parser)
        refusing.error(UNRECOGNIZED + " ".join(unknown))
    if parsed.command is None:
        parser.print_help(sys.stderr)
        return USAGE
    return load_command(parsed.command).run(parsed)


def refuse_renamed(arguments: Sequence[str]) -> None:
    """Refuse a command by its old name, and say the new one."""
    for words in (" ".join(arguments[:2]), *arguments[:1]):
        if words in RENAMED:
            raise UsageError(f"duly {words} is now duly {RENAMED[words]}: see docs/upgrading.md")


def load_command(name: str) -> Command:
    """Import the module of one command."""
    module: Command = import_module(f"duly.cli.{name}")
    return module


def command_line() -> CommandLine:
    """Return the parser of all commands."""
    parser = CommandLine(
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
    """Return True for errors of duly, of the system and of a database; False for bugs.

    A driver's error is known by its SQLSTATE, so that no driver has to be imported here.
    """
    return isinstance(problem, DulyError | OSError | sqlite3.Error) or hasattr(problem, "sqlstate")
