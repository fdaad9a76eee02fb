"""``duly storm``: real processes, real faults, and a ledger that balances."""

from __future__ import annotations

from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING

from duly.app.loading import add_optional_argument
from duly.app.output import add_json_option
from duly.core.errors import UsageError
from duly.demo.settings import Settings, file_url
from duly.server.options import whole_number

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
examples:
  duly storm                                20,000 deliveries on SQLite
  duly storm --seconds 60 --seed 7
  duly storm postgresql://me@localhost/test --deliveries 100000
  duly storm postgresql://… --cluster /var/lib/postgresql/15/test
  duly storm --deliveries 200000 --report storms/sqlite.md

Real processes receive signed webhooks over HTTP, run jobs and send messages,
while others are killed with -9, stopped past their lease and restarted; about
a third of the events come more than once, some are forged, some are poison.
Then the faults stop, what is owed is done, and every line of the ledger must
balance: the exit code is 0 if all do, and 1 if one does not.

On PostgreSQL the tables are in a schema of their own, duly_storm, which is
dropped at the end. --cluster names the data directory of a server that may be
crashed (SIGQUIT, as `pg_ctl -m immediate`), and that its service manager
starts again: never one that others use. Ctrl-C ends the faults early and
still balances the books; twice, it quits.
The seed repeats the events and the faults, not how processes meet."""

DELIVERIES = 20_000
MOST_DELIVERIES, MOST_SECONDS, MOST_PROCESSES = 100_000_000, 86_400, 16
SEEDS = 1_000_000


def add(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add_optional_argument(parser, "url", "the database, sqlite:///… (a new file) or postgresql://…")
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--deliveries",
        type=whole_number("a number of deliveries", 1, MOST_DELIVERIES),
        metavar="N",
        help=f"how many to send (default {DELIVERIES:,})",
    )
    size.add_argument(
        "--seconds",
        type=whole_number("a number of seconds", 1, MOST_SECONDS),
        metavar="S",
        help="how long to go on instead",
    )
    add_seed(parser)
    add_processes(parser, "--workers", "run jobs", 4)
    add_processes(parser, "--ingress", "receive deliveries", 2)
    parser.add_argument(
        "--cluster",
        type=Path,
        metavar="DIRECTORY",
        help="data directory of the server, which is then crashed, too",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="leave the files and tables, with the logs"
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE.md", help="write a report, and the faults beside it"
    )
    add_json_option(parser)


def add_seed(parser: argparse.ArgumentParser) -> None:
    """By which dice."""
    parser.add_argument(
        "--seed",
        type=whole_number("a seed", 0, SEEDS - 1),
        metavar="N",
        help="repeat the events and faults of another storm",
    )


def add_processes(parser: argparse.ArgumentParser, option: str, what: str, usual: int) -> None:
    """How many processes do something."""
    parser.add_argument(
        option,
        type=whole_number("a number of processes", 1, MOST_PROCESSES),
        default=usual,
        metavar="N",
        help=f"how many processes {what} (default {usual})",
    )


def seed_of(arguments: argparse.Namespace) -> int:
    """The seed that was asked for, or any."""
    drawn: int = SystemRandom().randrange(SEEDS) if arguments.seed is None else arguments.seed
    return drawn


def run(arguments: argparse.Namespace) -> int:
    """Storm."""
    from duly.demo.command import run_storm

    url = arguments.url
    if url is not None and not url.startswith(("sqlite:///", "postgresql://", "postgres://")):
        raise UsageError("a storm is for sqlite:///path/to/new.db or postgresql://…, nothing else")
    if arguments.cluster is not None and (url is None or url.startswith("sqlite:")):
        raise UsageError("--cluster is for a server: give the URL of a PostgreSQL database")
    seconds = arguments.seconds
    deliveries = arguments.deliveries or (None if seconds else DELIVERIES)
    seed = seed_of(arguments)

    def settings(folder: Path) -> Settings:
        return Settings(
            file_url(folder / "storm.db") if url is None else url,
            folder,
            seed=seed,
            deliveries=deliveries,
            seconds=None if seconds is None else float(seconds),
            workers=arguments.workers,
            ingress=arguments.ingress,
            cluster=arguments.cluster,
            keep=arguments.keep is not None,
        )

    return run_storm(settings, as_json=arguments.json, keep=arguments.keep, report=arguments.report)
