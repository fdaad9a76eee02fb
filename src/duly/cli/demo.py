"""``duly demo``: real processes, real faults, and a ledger that balances."""

from __future__ import annotations

from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING

from duly.app.loading import add_optional_argument
from duly.app.output import add_json_option
from duly.cli.options import whole_number
from duly.core.errors import UsageError
from duly.demo.settings import Settings, file_url

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
examples:
  duly demo                                 20 seconds on SQLite, in a temporary folder
  duly demo --seconds 60 --seed 7
  duly demo --deliveries 200000 --report storms/sqlite.md
  duly demo postgresql://me@localhost/test --deliveries 100000
  duly demo postgresql://… --cluster /var/lib/postgresql/15/test

It needs the extras serve and http. A sender delivers signed webhooks over HTTP,
badly: about a third of the events come more than once, some at the same
instant; some are forged, some are poison, some connections hang up. Other
processes receive them, run jobs and send messages, while they are killed with
-9, stopped past their leases and restarted. Then the faults stop, except for
events that kill the process that handles them until they are dead letters, and
everything else is finished. At the end what was sent is compared with what took
effect: the exit code is 0 if every line of the ledger balances, and 1 if one
does not.

On PostgreSQL the tables are in a schema of their own, duly_storm, which is
dropped at the end. --cluster names the data directory of a server that may be
crashed (SIGQUIT, as `pg_ctl -m immediate`), and that its service manager
starts again: never one that others use. Ctrl-C ends the faults early and
still audits the ledger; twice, it quits.
The seed repeats the events and the faults, not how processes meet."""

SECONDS = 20
MOST_DELIVERIES, MOST_SECONDS, MOST_PROCESSES = 100_000_000, 86_400, 16
SEEDS = 1_000_000


def add(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add_optional_argument(parser, "url", "the database, sqlite:///… (a new file) or postgresql://…")
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--seconds",
        type=whole_number("a number of seconds", 1, MOST_SECONDS),
        metavar="S",
        help=f"how long the faults last (default {SECONDS})",
    )
    size.add_argument(
        "--deliveries",
        type=whole_number("a number of deliveries", 1, MOST_DELIVERIES),
        metavar="N",
        help="how many deliveries to send instead",
    )
    parser.add_argument(
        "--seed",
        type=whole_number("a seed", 0, SEEDS - 1),
        metavar="N",
        help="repeat the events and faults of another run",
    )
    add_processes(parser, "--workers", "run jobs", 3)
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


def add_processes(parser: argparse.ArgumentParser, option: str, work: str, default: int) -> None:
    """Declare how many processes do one kind of work."""
    parser.add_argument(
        option,
        type=whole_number("a number of processes", 1, MOST_PROCESSES),
        default=default,
        metavar="N",
        help=f"how many processes {work} (default {default})",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the demonstration."""
    from duly.demo.command import run_storm

    url, seconds, seed = arguments.url, arguments.seconds, arguments.seed
    if url is not None and not url.startswith(("sqlite:///", "postgresql://", "postgres://")):
        raise UsageError("the demo is for sqlite:///path/to/new.db or postgresql://…, nothing else")
    if arguments.cluster is not None and (url is None or url.startswith("sqlite:")):
        raise UsageError("--cluster is for a server: give the URL of a PostgreSQL database")
    if arguments.deliveries is None and seconds is None:
        seconds = SECONDS
    if seed is None:
        seed = SystemRandom().randrange(SEEDS)

    def settings(folder: Path) -> Settings:
        return Settings(
            file_url(folder / "storm.db") if url is None else url,
            folder,
            seed=seed,
            deliveries=arguments.deliveries,
            seconds=None if seconds is None else float(seconds),
            workers=arguments.workers,
            ingress=arguments.ingress,
            cluster=arguments.cluster,
            keep=arguments.keep is not None,
        )

    return run_storm(settings, as_json=arguments.json, keep=arguments.keep, report=arguments.report)
