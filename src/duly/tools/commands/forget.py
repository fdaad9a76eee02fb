"""``duly forget``: clear an event's claim, so that its next delivery is processed again."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from duly._kernel.errors import Misuse
from duly.tools.output import add_json_option, answer
from duly.tools.serving.loading import FORMS, VARIABLE, add_word, app_name, loaded

if TYPE_CHECKING:
    import argparse

    from duly.inbox.forget import Forgotten

EXAMPLES = f"""\
examples:
  duly forget shop:app stripe evt_1
  {VARIABLE}=shop:app duly forget stripe evt_1 --json
  duly forget shop:app github 72d3162e --tenant acme    where the source tells tenants apart

Refused while a job of the event waits (ready) or is being worked on (leased); jobs that were given
up (dead) are discarded. Nothing runs until the sender delivers the event again: redeliver it from
the sender's dashboard."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add_word(parser, "app", f"whose event: {FORMS} (or {VARIABLE})")
    add_word(parser, "source", "the source that received it")
    add_word(parser, "event_id", "the id that its sender gave it")
    parser.add_argument("--tenant", help="whose event it is, where the source tells tenants apart")
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Forget it, and say what follows."""
    app, source, event_id = words(arguments)
    with closing(loaded(app)) as application:
        application.store.open()
        try:
            done = application.forget(source, event_id, tenant=arguments.tenant)
        except Misuse as problem:  # in the words of a shell
            raise Misuse(str(problem).replace("tenant=", "--tenant")) from None
    answer(
        arguments,
        told(source, done),
        {
            "source": source,
            "event": done.event_id,
            "tenant": arguments.tenant,
            "type": done.type,
            "discarded": done.discarded,
            "handlers": list(done.handlers),
            "too_old": done.too_old,
        },
    )
    return 0


def words(arguments: argparse.Namespace) -> tuple[str, str, str]:
    """The application, the source and the event; the first may be left to the environment."""
    given = [arguments.app, arguments.source, arguments.event_id]
    if given[2] is None:
        given = [None, *given[:2]]
    app, source, event_id = given
    if source is None or event_id is None:
        raise Misuse("which event? As in `duly forget shop:app stripe evt_1`")
    return app_name(app), source, event_id


def told(source: str, done: Forgotten) -> str:
    """What was done, for a person."""
    kind = f" ({done.type})" if done.type else ""
    lines = [f"forgot {done.event_id}{kind} of {source}"]
    if done.discarded:
        jobs = "dead job" if done.discarded == 1 else "dead jobs"
        lines.append(f"discarded {done.discarded} {jobs}")
    again = ", ".join(done.handlers) or "no handler"
    lines.append(f"when it is delivered again, it runs: {again}")
    if done.too_old and not done.handlers:
        lines.append("it was too old, and will be again unless keep= of the source reaches back")
    return "\n".join(lines)
