"""``duly replay``: let dead jobs run again, one by its id or many by a filter, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly._kernel.errors import Misuse
from duly._kernel.onestep import finish
from duly._ledger.replaying import replay
from duly.jobs.replaying import plan_of
from duly.tools.letters import (
    PLACE,
    add_filters,
    add_table_options,
    add_words,
    chosen,
    shell_words,
    sorted_words,
    store_at,
)
from duly.tools.output import Progress, add_json_option, answer

if TYPE_CHECKING:
    import argparse

    from duly._ledger.replaying import Replayed

SUMMARY = "Let dead jobs run again: one, those that a filter chooses, or all."
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
    parser.add_argument("--all", action="store_true", help="every dead letter there is")
    parser.add_argument("--dry-run", action="store_true", help="only say which, change nothing")
    parser.add_argument(
        "--rate", type=float, metavar="N", help="how many may run in a second; all at once if not"
    )
    add_table_options(parser)
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Replay in chunks and say what was done."""
    place, job = sorted_words([arguments.app, arguments.id])
    which = chosen(arguments, job)
    with shell_words():
        plan = plan_of(which, arguments.rate, dry_run=arguments.dry_run, everything=arguments.all)
    verb = "would replay" if arguments.dry_run else "replayed"
    with store_at(arguments, place) as store, Progress() as progress:
        done = finish(
            replay(store.blocking, plan, lambda n: progress.show(f"{verb} {n:,} jobs so far"))
        )
    if job is not None and not done.ids:
        raise Misuse(
            f"there is no dead letter {job}: it was replayed, discarded or never given up. Look "
            "with `duly dead`"
        )
    answer(arguments, told(done, verb), {"ids": list(done.ids), "dry_run": done.dry_run})
    return 0


def told(done: Replayed, verb: str) -> str:
    """What was done, for a person; a dry run names them all."""
    jobs = "1 job" if len(done.ids) == 1 else f"{len(done.ids):,} jobs"
    return "\n".join([f"{verb} {jobs}", *(done.ids if done.dry_run else ())])
