"""``duly effects resolve``: record whether an unknown effect happened."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from duly.app.output import add_json_option, print_answer
from duly.cli.options import TARGET, add_table_options, open_store, require_target
from duly.core.errors import UsageError
from duly.core.onestep import finish
from duly.jobs.resolve import finding_of, resolve
from duly.ledger.dead_filters import ID

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
examples:
  duly effects resolve shop:app 0198c3a2-5d1e-7b4f-9c60-8a2f41d7e305 charge --not-done
  duly effects resolve shop:app 0198c3a2-5d1e-7b4f-9c60-8a2f41d7e305 charge \\
      --done --result '"ch_1"'

`duly jobs show` names the effects of a dead job that are unknown, with the idempotency keys to look
for on the other side. Afterwards `duly jobs replay` lets the job run again: it gets the result
without another call, or makes the call."""
AS_IN = "`duly effects resolve shop:app 0198c3a2-5d1e-7b4f-9c60-8a2f41d7e305 charge --done`"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "words",
        nargs="+",
        metavar="WORD",
        help=f"resolve, whose job ({TARGET}), its id, and the name of the effect, in this order",
    )
    finding = parser.add_mutually_exclusive_group(required=True)
    finding.add_argument("--done", action="store_true", help="it happened")
    finding.add_argument("--not-done", action="store_true", help="it did not happen")
    parser.add_argument("--result", metavar="JSON", help="what the call returned, with --done")
    add_table_options(parser)
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Record what was found out about an effect."""
    target, job, effect = parse_words(arguments.words)
    finding = finding_of(job, effect, done=arguments.done, result=parse_result(arguments.result))
    with open_store(arguments, require_target(target, "whose job?")) as store:
        finish(resolve(store.sync_runner, finding))
    done = "done" if arguments.done else "not done"
    print_answer(
        arguments,
        f"effect {effect} of job {job} is {done}; `duly jobs replay` lets the job run again",
        {"job": job, "effect": effect, "done": arguments.done},
    )
    return 0


def parse_words(words: list[str]) -> tuple[str | None, str, str]:
    """Return the target, the job and the effect; the environment may name the target."""
    action, *target, job, effect = words if len(words) > 2 else ["", "", ""]
    if action != "resolve" or len(target) > 1 or not ID.fullmatch(job):
        raise UsageError(
            "write resolve, the application or address, the id of the job and the name of the "
            f"effect, as in {AS_IN}"
        )
    return next(iter(target), None), job.lower(), effect


def parse_result(text: str | None) -> object:
    """Parse the result of the call."""
    if text is None:
        return None
    try:
        found: object = json.loads(text)
    except ValueError:
        raise UsageError(
            "--result must be JSON: text goes in double quotes, as in --result '\"ch_1\"'"
        ) from None
    return found
