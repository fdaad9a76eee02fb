"""Renders what users can name: `python -m tests.repo.render_outside` writes the snapshots anew.

Names, signatures, commands, tables and loggers are promises to users. Each snapshot is a text
file in `tests/repo/outside`, so that a change to any of them shows up as a line of a diff and is
made on purpose.
"""

import argparse
import inspect
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from operator import attrgetter
from pathlib import Path

import duly
from duly import aio, django, errors, fastapi, flask, prove, testing, types
from duly.cli.main import CommandParser, command_line, load_command

HERE = Path(__file__).parent
FOLDER = HERE / "outside"
SOURCES = HERE.parents[1] / "src"
MODULES = (duly, errors, types, aio, testing, prove, django, fastapi, flask)
# What an application has beside its own methods.
PARTS_OF_APP = ("aio", "jobs", "aio.jobs", "outbox", "aio.outbox")


def public_names(owner: object) -> list[str]:
    """The names of a module or class that users may write, sorted."""
    names = getattr(owner, "__all__", None)
    if names is None:
        names = [name for name in dir(owner) if not name.startswith("_")]
    return sorted(names)


def render_names() -> Iterator[str]:
    """Every public name of every public module."""
    for module in MODULES:
        for name in public_names(module):
            yield f"{module.__name__}.{name}"


def signature_of(function: Callable[..., object]) -> str:
    """The signature as text, the same on every Python."""
    try:
        text = str(inspect.signature(function))
    except (TypeError, ValueError):
        return "(…)"
    # The address of an object whose repr has one differs from run to run.
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def render_members(path: str, kind: type) -> Iterator[str]:
    """The constructor and the public members of a class, as users call them."""
    if not issubclass(kind, BaseException):
        yield f"{path}{signature_of(kind)}"
    else:
        yield f"{path}: {', '.join(base.__name__ for base in kind.__mro__[1:-2])}"
    for name in public_names(kind):
        member = inspect.getattr_static(kind, name)
        if isinstance(member, classmethod | staticmethod):
            member = member.__func__
        if hasattr(BaseException, name) or (hasattr(tuple, name) and issubclass(kind, tuple)):
            continue
        if inspect.isfunction(member):
            waits = "async " if inspect.iscoroutinefunction(member) else ""
            yield f"  {waits}{name}{signature_of(member)}"
        else:
            yield f"  {name}"


def render_signatures() -> Iterator[str]:
    """Every public function and class with what it takes."""
    for module in MODULES:
        for name in public_names(module):
            value = getattr(module, name)
            path = f"{module.__name__}.{name}"
            if inspect.isclass(value):
                yield from render_members(path, value)
            elif inspect.isfunction(value):
                waits = "async " if inspect.iscoroutinefunction(value) else ""
                yield f"{waits}{path}{signature_of(value)}"
    with closing(duly.Duly("memory:")) as app:
        for part in PARTS_OF_APP:
            yield from render_members(f"app.{part}", type(attrgetter(part)(app)))


def render_parser(path: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """What one command takes, without argparse's layout, which differs between releases."""
    yield f"{path}: {parser.description}"
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from render_parser(f"{path} {name}", chosen(inner))
            continue
        words = ", ".join(action.option_strings) or action.dest
        value = "" if action.nargs == 0 else f" {action.metavar or action.dest.upper()}"
        yield f"  {words}{value}: {' '.join((action.help or '').split())}"


def chosen(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """A parser that knows its options: the parser of a command learns them when it is chosen."""
    if isinstance(parser, CommandParser) and parser.command is None:
        parser.command = load_command(parser.name)
        parser.epilog = parser.command.EXAMPLES
        parser.command.add(parser)
    return parser


def render_commands() -> Iterator[str]:
    """The command line: every command with its options and their help."""
    yield from render_parser("duly", command_line())


def render_tables() -> Iterator[str]:
    """Tables and columns on SQLite; tests/stores/test_schema_files.py compares PostgreSQL's."""
    text = (SOURCES / "duly/stores/sqlite/schema.sql").read_text()
    connection = sqlite3.connect(":memory:")
    connection.executescript(text)
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type='table' ORDER BY name")
    for (table,) in tables.fetchall():
        columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
        yield f"{table}: {', '.join(column[1] for column in columns)}"
    connection.close()


def render_loggers() -> Iterator[str]:
    """The loggers by which users filter."""
    found = set()
    for path in SOURCES.rglob("*.py"):
        found |= set(re.findall(r"getLogger\(f?\"(duly[^\"]*)\"\)", path.read_text()))
    yield from sorted(found)


SNAPSHOTS: dict[str, Callable[[], Iterable[str]]] = {
    "names": render_names,
    "signatures": render_signatures,
    "commands": render_commands,
    "tables": render_tables,
    "loggers": render_loggers,
}


def main() -> None:
    """Write every snapshot."""
    for name, render in SNAPSHOTS.items():
        FOLDER.joinpath(f"{name}.txt").write_text("\n".join(render()) + "\n")


if __name__ == "__main__":
    main()
