"""Options that commands of long-running processes share, and the forms of their values."""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import TYPE_CHECKING

from duly.relay.settings import SHORTEST_LEASE as SHORTEST_RELAY_LEASE
from duly.relay.settings import SLACK
from duly.server.settings import LEVELS
from duly.worker.settings import CONCURRENCY, LEASE, MOST_AT_ONCE, SHORTEST_LEASE

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_SECONDS = 3600.0


def add_log(parser: argparse.ArgumentParser) -> None:
    """What it says of itself."""
    parser.add_argument(
        "--log-level", choices=LEVELS, default="info", help="how much is logged (default info)"
    )
    parser.add_argument("--log-json", action="store_true", help="log in JSON, an object a line")


def add_concurrency(parser: argparse.ArgumentParser) -> None:
    """How many jobs run."""
    parser.add_argument(
        "--concurrency",
        type=whole_number("a number of jobs", 1, MOST_AT_ONCE),
        default=CONCURRENCY,
        metavar="N",
        help=f"how many jobs of each queue run at the same time (default {CONCURRENCY})",
    )


def whole_number(what: str, least: int, most: int) -> Callable[[str], int]:
    """A whole number within bounds, for argparse."""

    def number(text: str) -> int:
        if not text.isascii() or not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"it must be {what} from {least} to {most:,}")
        return int(text)

    return number


def add_grace(parser: argparse.ArgumentParser, things: str, grace: timedelta) -> None:
    """How long the end may take."""
    parser.add_argument(
        "--grace",
        type=seconds,
        default=grace.total_seconds(),
        metavar="SECONDS",
        help=f"how long {things} may take to finish at the end (default {grace.total_seconds():g})",
    )


def add_until_idle(parser: argparse.ArgumentParser) -> None:
    """When it ends by itself."""
    parser.add_argument(
        "--until-idle", action="store_true", help="end when there is nothing to do now"
    )


def add_lease(parser: argparse.ArgumentParser, worker: str) -> None:
    """How long a worker is believed to live."""
    parser.add_argument(
        "--lease",
        type=lease(SHORTEST_LEASE),
        default=LEASE,
        metavar="SECONDS",
        help=f"how long {worker} may be silent before its jobs are given to others "
        f"(default {LEASE.total_seconds():g})",
    )


def add_relay_lease(parser: argparse.ArgumentParser, option: str, relay: str) -> None:
    """How long a relay may have a message."""
    parser.add_argument(
        option,
        type=lease(SHORTEST_RELAY_LEASE),
        metavar="SECONDS",
        help=f"how long {relay} may have a message before it is given to another "
        f"(default: the longest call, and {SLACK.total_seconds():g} more)",
    )


def lease(least: timedelta) -> Callable[[str], timedelta]:
    """How long a lease lasts, for argparse."""

    def length(text: str) -> timedelta:
        found = timedelta(seconds=seconds(text))
        if found < least:
            told = f"it must be at least {least.total_seconds():g} seconds"
            raise argparse.ArgumentTypeError(told)
        return found

    return length


def seconds(text: str) -> float:
    """A duration, for argparse."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"it must be a number of seconds, 0 to {MOST_SECONDS:g}")
    return found
