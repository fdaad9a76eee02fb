"""``duly replay``: let dead jobs run again, one by its id or many by a filter, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.app.output import add_json_option
from duly.cli.dead import add_filters, selection_from_options
from duly.cli.dead_letters import (
    JOBS,
    add_replay_options,
    add_words,
    errors_in_shell_words,
    replay_letters,
    split_place_and_id,
)
from duly.cli.target import PLACE, add_table_options
from duly.jobs.replay import plan_of

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
examples:
  duly replay shop:app 0198c3a2-5d1e-7b4f-9c60-8a2f41d7e305
  duly replay shop:app --source stripe --type invoice.paid --since 2h --dry-run
  duly replay shop:app --name charge --rate 5      five in a second, from now on
  DULY_APP=shop:app duly replay --all --json

Each runs again once, however many people ask at the same time, with all its attempts before it.
With --rate the times are written with the jobs: this command does not wait, and may be closed."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add_words(parser, app=f"whose jobs: {PLACE}", id="the id of one dead job")
    add_filters(parser)
    add_replay_options(parser, "run")
    add_table_options(parser)
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Replay in chunks and say what was done."""
    place, job = split_place_and_id([arguments.app, arguments.id])
    which = selection_from_options(arguments, job)
    with errors_in_shell_words():
        plan = plan_of(which, arguments.rate, dry_run=arguments.dry_run, everything=arguments.all)
    replay_letters(arguments, place, plan, job, JOBS)
    return 0
