"""Options that commands share: the application or the URL, table names, numbers, durations."""

from __future__ import annotations

import argparse
import os
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from duly.app.loading import FORMS, VARIABLE, add_optional_argument, load_app
from duly.core.errors import UsageError
from duly.relay.settings import SHORTEST_LEASE as SHORTEST_RELAY_LEASE
from duly.relay.settings import SLACK
from duly.stores.open import FORMS as URL_FORMS
from duly.stores.open import store
from duly.worker.settings import CONCURRENCY, LEASE, MOST_AT_ONCE, SHORTEST_LEASE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly.app.duly import Duly
    from duly.stores.store import Store

URL_VARIABLE = "DULY_URL"
TARGET = f"{FORMS}; or the URL of its database ({VARIABLE} or {URL_VARIABLE} if not given)"
# A URL with a slash too few is still meant as one; opening it says how to write it.
MISSPELT = ("sqlite:/", "postgresql:/", "postgres:/")
MEMORY = "a memory: store ends with its process, so there is nothing to work on here"
OWN_TABLES = "an application names its tables itself: leave out --prefix and --schema"
LEVELS = ("debug", "info", "warning", "error")
MOST_SECONDS = 3600.0


# The application or the database


def add_target_options(parser: argparse.ArgumentParser) -> None:
    """Declare the application or URL, and the table names, of a command on a database."""
    add_optional_argument(parser, "app", f"whose database: {TARGET}")
    add_table_options(parser)


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """Declare the table names, for commands that take the URL of a database."""
    parser.add_argument("--prefix", help="what table names start with (DULY_PREFIX, else duly_)")
    parser.add_argument("--schema", help="PostgreSQL schema of the tables (DULY_SCHEMA)")
    parser.add_argument(
        "--durability",
        choices=("required", "any"),
        default="required",
        help="any: accept a PostgreSQL server that may lose what it acknowledged",
    )


def require_target(given: str | None, question: str = "which database?") -> str:
    """Return the application or URL from the command line, or else from the environment."""
    target = given or os.environ.get(VARIABLE) or os.environ.get(URL_VARIABLE)
    if not target:
        raise UsageError(
            f"{question} Name the application, as in {FORMS}, or give the URL of its database: "
            f"{URL_FORMS}. {VARIABLE} and {URL_VARIABLE} can hold them"
        )
    return target


def is_url(target: str) -> bool:
    """Return True for the URL of a database, and False for the name of an application."""
    return "://" in target or target == "memory:" or target.startswith(MISSPELT)


def store_of(arguments: argparse.Namespace, target: str) -> Store:
    """Return the store of an application or at a URL, not connected yet."""
    if is_url(target):
        return store_at_url(arguments, target)
    refuse_table_options(arguments)
    found = load_app(target).store
    if found.url == "memory:":
        raise UsageError(MEMORY)
    return found


def store_at_url(arguments: argparse.Namespace, url: str) -> Store:
    """Return the store at a URL; refuse a memory: store, which would end with this command."""
    if url == "memory:":
        raise UsageError(MEMORY)
    return store(
        url,
        prefix=arguments.prefix,
        schema=arguments.schema,
        durability=arguments.durability,
    )


def refuse_table_options(arguments: argparse.Namespace) -> None:
    """Refuse table names beside an application, which knows its own."""
    if arguments.prefix is not None or arguments.schema is not None:
        raise UsageError(OWN_TABLES)


@contextmanager
def open_store(arguments: argparse.Namespace, target: str) -> Iterator[Store]:
    """Open the store of an application or at a URL, check its tables, and close it at the end.

    Opening alone would create an empty database where a SQLite path is mistyped.
    """
    with closing(store_of(arguments, target)) as opened:
        opened.check()
        yield opened


# Long-running processes


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Declare how much is logged, and in which form."""
    parser.add_argument(
        "--log-level", choices=LEVELS, default="info", help="how much is logged (default info)"
    )
    parser.add_argument("--log-json", action="store_true", help="log in JSON, an object a line")


def add_concurrency(parser: argparse.ArgumentParser) -> None:
    """Declare how many jobs a worker runs."""
    parser.add_argument(
        "--concurrency",
        type=whole_number("a number of jobs", 1, MOST_AT_ONCE),
        default=CONCURRENCY,
        metavar="N",
        help=f"how many jobs of each queue run at the same time (default {CONCURRENCY})",
    )


def add_grace(parser: argparse.ArgumentParser, things: str, grace: timedelta) -> None:
    """Declare how long a drain may take."""
    parser.add_argument(
        "--grace",
        type=seconds,
        default=grace.total_seconds(),
        metavar="SECONDS",
        help=f"how long {things} may take to finish at the end (default {grace.total_seconds():g})",
    )


def add_until_idle(parser: argparse.ArgumentParser) -> None:
    """Declare ``--until-idle``."""
    parser.add_argument(
        "--until-idle",
        dest="until",
        action="store_const",
        const="idle",
        default="stopped",
        help="end when there is nothing to do now",
    )


def add_worker_lease(parser: argparse.ArgumentParser, worker: str) -> None:
    """Declare how long a worker may miss its heartbeat."""
    parser.add_argument(
        "--lease",
        type=lease(SHORTEST_LEASE),
        default=LEASE,
        metavar="SECONDS",
        help=f"how long {worker} may be silent before its jobs are given to others "
        f"(default {LEASE.total_seconds():g})",
    )


def add_relay_lease(parser: argparse.ArgumentParser, option: str, relay: str) -> None:
    """Declare how long a relay may hold a message."""
    parser.add_argument(
        option,
        type=lease(SHORTEST_RELAY_LEASE),
        metavar="SECONDS",
        help=f"how long {relay} may have a message before it is given to another "
        f"(default: the longest call, and {SLACK.total_seconds():g} more)",
    )


def refuse_memory_store(app: Duly, service: str) -> None:
    """Refuse an application whose store no other process can reach."""
    if not app.store.capabilities.durable:
        raise UsageError(
            f"a memory: store belongs to one process, so a {service} in another one would find "
            f"nothing: use `duly serve`, which has a {service}, or SQLite"
        )


# Types for argparse


def whole_number(what: str, least: int, most: int) -> Callable[[str], int]:
    """Return a parser of whole numbers within bounds."""

    def number(text: str) -> int:
        if not text.isascii() or not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"it must be {what} from {least} to {most:,}")
        return int(text)

    return number


def lease(least: timedelta) -> Callable[[str], timedelta]:
    """Return a parser of lease lengths."""

    def length(text: str) -> timedelta:
        found = timedelta(seconds=seconds(text))
        if found < least:
            raise argparse.ArgumentTypeError(
                f"it must be at least {least.total_seconds():g} seconds"
            )
        return found

    return length


def seconds(text: str) -> float:
    """Parse a duration in seconds."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"it must be a number of seconds, 0 to {MOST_SECONDS:g}")
    return found


def positive_seconds(text: str) -> float:
    """Parse a duration in seconds that is not 0."""
    found = seconds(text)
    if not found:
        raise argparse.ArgumentTypeError("it must be more than 0 seconds")
    return found
