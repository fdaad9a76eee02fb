"""``duly forget``: clear an event's claim, so that its next delivery is processed again."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from duly.app.loading import VARIABLE, add_optional_argument, load_app
from duly.app.output import add_json_option, print_answer
from duly.cli.options import (
    TARGET,
    add_table_options,
    is_url,
    open_store,
    refuse_table_options,
    require_target,
)
from duly.core.errors import UsageError
from duly.core.onestep import finish
from duly.core.validation import checked_scope
from duly.inbox.forget import forget_committed
from duly.inbox.route import checked_name, scope_of

if TYPE_CHECKING:
    import argparse

    from duly.inbox.forget import Forgotten

EXAMPLES = f"""\
examples:
  duly forget shop:app stripe evt_1
  {VARIABLE}=shop:app duly forget stripe evt_1 --json
  duly forget shop:app github 72d3162e --tenant acme    where the source tells tenants apart
  duly forget postgresql://shop@db/shop stripe evt_1    the database, without its application

Refused while a job of the event waits (ready) or is being worked on (leased); jobs that were given
up (dead) are discarded. Nothing runs until the sender delivers the event again: redeliver it from
the sender's dashboard. Only an application knows its handlers, so only with one are they named."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add_optional_argument(parser, "app", f"whose event: {TARGET}")
    add_optional_argument(parser, "source", "the source that received it")
    add_optional_argument(parser, "event_id", "the id that its sender gave it")
    parser.add_argument("--tenant", help="whose event it is, where the source tells tenants apart")
    add_table_options(parser)
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Forget the event, and print what its next delivery runs."""
    target, source, event_id = parse_words(arguments)
    known = not is_url(target)
    if known:
        done = forget_in_app(arguments, target, source, event_id)
    else:
        done = forget_at_url(arguments, target, source, event_id)
    print_answer(
        arguments,
        forgotten_text(source, done, handlers_known=known),
        {
            "source": source,
            "event": done.event_id,
            "tenant": arguments.tenant,
            "type": done.type,
            "discarded": done.discarded,
            "handlers": list(done.handlers) if known else None,
            "too_old": done.too_old,
        },
    )
    return 0


def forget_in_app(
    arguments: argparse.Namespace, name: str, source: str, event_id: str
) -> Forgotten:
    """Forget an event of an application, which knows its sources and handlers."""
    refuse_table_options(arguments)
    with closing(load_app(name)) as application:
        application.store.open()
        return application.forget(source, event_id, tenant=arguments.tenant)


def forget_at_url(arguments: argparse.Namespace, url: str, source: str, event_id: str) -> Forgotten:
    """Forget an event in a database, without its application."""
    if arguments.tenant == "" or event_id == "":
        raise UsageError("the event id and --tenant must not be empty")
    scope = checked_scope(scope_of(checked_name(source), arguments.tenant))
    with open_store(arguments, url) as store:
        return finish(forget_committed(store.sync_runner, scope, event_id))


def parse_words(arguments: argparse.Namespace) -> tuple[str, str, str]:
    """Return the target, the source and the event; the environment may hold the target."""
    given = [arguments.app, arguments.source, arguments.event_id]
    if given[2] is None:
        given = [None, *given[:2]]
    app, source, event_id = given
    if source is None or event_id is None:
        raise UsageError("which event? As in `duly forget shop:app stripe evt_1`")
    return require_target(app, "which application?"), source, event_id


def forgotten_text(source: str, done: Forgotten, *, handlers_known: bool) -> str:
    """Describe what was done, for people."""
    kind = f" ({done.type})" if done.type else ""
    lines = [f"forgot {done.event_id}{kind} of {source}"]
    if done.discarded:
        jobs = "dead job" if done.discarded == 1 else "dead jobs"
        lines.append(f"discarded {done.discarded} {jobs}")
    again = ", ".join(done.handlers) or "no handler"
    if not handlers_known:
        again = "the handlers that the application has for it"
    lines.append(f"when it is delivered again, it runs: {again}")
    if done.too_old and not done.handlers:
        lines.append("it was too old, and will be again unless window= of the source reaches back")
    return "\n".join(lines)
