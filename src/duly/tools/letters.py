"""What the commands about jobs have in common: where they look, which dead letters, what is shown.

They need the database alone. It is named by its address, or by an application that knows it.
"""

from __future__ import annotations

import os
import re
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from duly._kernel.errors import Misuse
from duly._ledger.letters import ID
from duly.jobs.dead import selection
from duly.tools.serving.loading import FORMS, VARIABLE, add_word, loaded
from duly.tools.where import URL_VARIABLE, lasting_store

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from duly.jobs.dead import DeadLetter, Selection
    from duly.stores.base import Store

PLACE = f"{FORMS}; or the address of its database ({VARIABLE} or {URL_VARIABLE} if not given)"
FILTERS = ("source", "type", "name", "since", "until")
FILTER_WORDS = re.compile(rf"\b({'|'.join(FILTERS)}|all)=(True)?")
AGO = re.compile(r"(\d{1,6})\s*([smhdw])")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def add_words(parser: argparse.ArgumentParser, **meanings: str) -> None:
    """Words that may stand in any order: each is known by its form."""
    for name, meaning in meanings.items():
        add_word(parser, name, meaning)


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """The names of the tables, for whoever gives the address of the database."""
    parser.add_argument("--prefix", help="what table names start with (DULY_PREFIX, else duly_)")
    parser.add_argument("--schema", help="PostgreSQL schema of the tables (DULY_SCHEMA)")
    parser.add_argument(
        "--durability",
        choices=("required", "any"),
        default="required",
        help="any: accept a PostgreSQL server that may lose what it acknowledged",
    )


def add_filters(parser: argparse.ArgumentParser) -> None:
    """The options that choose among dead letters."""
    parser.add_argument("--source", help="only those of events of this source")
    parser.add_argument("--type", help="only those of events of this type")
    parser.add_argument("--name", help="only those of the handler of this name")
    parser.add_argument(
        "--since", metavar="TIME", help="only those that died then or later: 2h, 3d, or 2026-01-31"
    )
    parser.add_argument("--until", metavar="TIME", help="only those that died before")


def sorted_words(given: list[str | None]) -> tuple[str | None, str | None]:
    """The place and the id of a job, in whatever order they were given."""
    words = [word for word in given if word is not None]
    ids = [word for word in words if ID.fullmatch(word)]
    places = [word for word in words if word not in ids]
    if len(ids) > 1 or len(places) > 1:
        raise Misuse(
            "give one application or address, and one id of a job, as in `duly dead show shop:app "
            "0198c3a2-5d1e-7b4f-9c60-8a2f41d7e305`"
        )
    return next(iter(places), None), next(iter(ids), None)


def chosen(arguments: argparse.Namespace, job: str | None) -> Selection:
    """The dead letters that the options choose."""
    given = {name: getattr(arguments, name) for name in FILTERS}
    for name in ("since", "until"):
        given[name] = None if given[name] is None else moment(name, given[name])
    with shell_words():
        return selection(job, **given)


@contextmanager
def shell_words() -> Iterator[None]:
    """Say what is wrong in the words of a shell."""
    try:
        yield
    except Misuse as problem:
        raise Misuse(FILTER_WORDS.sub(r"--\1", str(problem))) from None


def moment(name: str, text: str) -> datetime:
    """A time as a person writes it: how long ago, or an ISO time, in UTC unless it says."""
    ago = AGO.fullmatch(text)
    if ago is not None:
        return datetime.now(UTC) - timedelta(**{UNITS[ago[2]]: int(ago[1])})
    try:
        told = datetime.fromisoformat(text)
    except ValueError:
        raise Misuse(
            f"--{name} must be how long ago, like 45m, 2h or 3d, or a time like 2026-01-31 or "
            "2026-01-31T12:00:00+00:00"
        ) from None
    return told.replace(tzinfo=UTC) if told.tzinfo is None else told


@contextmanager
def store_at(arguments: argparse.Namespace, place: str | None) -> Iterator[Store]:
    """The database that the command is about, closed at the end. Nothing is created."""
    place = place or os.environ.get(VARIABLE) or os.environ.get(URL_VARIABLE)
    if place is None:
        raise Misuse(f"whose jobs? Name the application, {PLACE}")
    if is_address(place):
        arguments.url = place
        opened = lasting_store(arguments)
    else:
        opened = store_of_app(arguments, place)
    with closing(opened) as store:
        store.check()  # opening a mistyped SQLite path would create an empty database
        yield store


def is_address(place: str) -> bool:
    """Whether a word is the address of a database, and not an application."""
    return "://" in place or place == "memory:"


def store_of_app(arguments: argparse.Namespace, name: str) -> Store:
    """The database of an application."""
    if arguments.prefix is not None or arguments.schema is not None:
        raise Misuse("an application names its tables itself: leave out --prefix and --schema")
    store = loaded(name).store
    if store.url == "memory:":
        raise Misuse("a memory: store ends with its process, so there is nothing to work on here")
    return store


def for_whom(letter: DeadLetter) -> str:
    """The event that a job was about."""
    if letter.event_id is None:
        return "-"
    kind = f" ({letter.type})" if letter.type else ""
    return on_one_line(f"{letter.source} {letter.event_id}{kind}")


def why(letter: DeadLetter) -> str:
    """The last error, on one line."""
    failure = letter.failure
    return "-" if failure is None else on_one_line(f"{failure.type}: {failure.message}")


def at(time: datetime) -> str:
    """A time, to the second."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def on_one_line(text: str) -> str:
    """Text that somebody else wrote, safe on a terminal."""
    return printable(" ".join(text.split()))


def printable(text: str) -> str:
    """The same with its lines: no control character may reach a terminal."""
    return "".join(
        one if one.isprintable() or one in "\n\t" else "\N{REPLACEMENT CHARACTER}" for one in text
    )
