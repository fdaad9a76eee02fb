"""``duly demo``: twenty seconds of storm on SQLite, for whoever wants to see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.app.output import add_json_option
from duly.cli.storm import add_seed, seed_of
from duly.demo.settings import Settings, file_url
from duly.server.options import whole_number

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

EXAMPLES = """\
examples:
  duly demo                 in a temporary folder (needs the extras serve and http)
  duly demo --seconds 60

A sender delivers signed webhooks, badly: copies, copies at the same instant,
forgeries, hung-up connections. Two processes receive them, three run jobs,
one sends messages on; they are killed with -9, stopped past their leases and
restarted. Then nothing goes wrong any more but events that kill whoever
handles them, until they are dead letters; everything else is done. At the end
what was sent is compared with what took effect. The exit code is 0 if every
line balances. `duly storm` is the same with options, and on PostgreSQL."""

SECONDS, LONGEST = 20, 3600


def add(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "--seconds",
        type=whole_number("a number of seconds", 5, LONGEST),
        default=SECONDS,
        metavar="S",
        help=f"how long the faults last (default {SECONDS})",
    )
    add_seed(parser)
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Demonstrate."""
    from duly.demo.command import run_storm

    seed = seed_of(arguments)

    def settings(folder: Path) -> Settings:
        return Settings(
            file_url(folder / "storm.db"),
            folder,
            seed=seed,
            deliveries=None,
            seconds=float(arguments.seconds),
            workers=3,
        )

    return run_storm(settings, as_json=arguments.json)
