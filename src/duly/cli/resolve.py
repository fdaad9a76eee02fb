"""``duly resolve``: say whether an effect happened of which nobody knew."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from duly.app.output import add_json_option, print_answer
from duly.cli.dead_letters import store_at
from duly.cli.target import PLACE, add_table_options
from duly.core.errors import UsageError
from duly.core.onestep import finish
from duly.jobs.resolve import finding_of, resolve
from duly.ledger.dead_filters import ID

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
examples:
  duly resolve shop:app 0198c3a2-5d1e-7b4f-9c60-8a2f41d7e305 charge --done --result '"ch_1"'
  duly resolve shop:app 0198c3a2-5d1e-7b4f-9c60-8a2f41d7e305 charge --not-done

`duly dead show` names the effects of a job that are unknown, with the idempotency keys to look for
on the other side. Afterwards `duly replay` lets the job run again: it gets the result without
another call, or makes the call."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "words",
        nargs="+",
        metavar="WORD",
        help=f"whose job ({PLACE}), its id, and the name of the effect, in this order",
    )
    found_out = parser.add_mutually_exclusive_group(required=True)
    found_out.add_argument("--done", action="store_true", help="it happened")
    found_out.add_argument("--not-done", action="store_true", help="it did not happen")
    parser.add_argument("--result", metavar="JSON", help="what the call returned, with --done")
    add_table_options(parser)
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write what was found out."""
    words: list[str] = arguments.words
    *place, job, effect = words if len(words) > 1 else ["", "", ""]
    if len(place) > 1 or not ID.fullmatch(job):
        raise UsageError(
            "give the application or address, the id of the job and the name of the effect, as in "
            "`duly resolve shop:app 0198c3a2-5d1e-7b4f-9c60-8a2f41d7e305 charge --done`"
        )
    result = result_of(arguments)
    finding = finding_of(job.lower(), effect, done=arguments.done, result=result)
    with store_at(arguments, next(iter(place), None)) as store:
        finish(resolve(store.sync_runner, finding))
    told = "done" if arguments.done else "not done"
    print_answer(
        arguments,
        f"effect {effect} of job {job} is {told}; `duly replay` lets the job run again",
        {"job": job, "effect": effect, "done": arguments.done},
    )
    return 0


def result_of(arguments: argparse.Namespace) -> object:
    """The result as a person wrote it."""
    if arguments.result is None:
        return None
    try:
        found: object = json.loads(arguments.result)
    except ValueError:
        raise UsageError(
            "--result must be JSON: text goes in double quotes, as in --result '\"ch_1\"'"
        ) from None
    return found
