"""``duly dead``: list the jobs that were given up, show one with all that is known, discard it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from duly.app.output import add_json_option, on_one_line, print_answer, printable
from duly.cli.dead_letters import (
    JOBS,
    add_limit,
    add_times,
    add_words,
    errors_in_shell_words,
    failure_document,
    failure_text,
    format_time,
    given_filters,
    limit_note,
    limit_of,
    not_dead_error,
    short_failure_text,
    split_place_and_id,
    store_at,
)
from duly.cli.tables import align_texts
from duly.cli.target import PLACE, add_table_options
from duly.core.errors import UsageError
from duly.core.onestep import finish
from duly.jobs.dead import (
    SHOWN_BYTES,
    JobSelection,
    discard_dead,
    job_selection,
    list_dead,
    read_event,
)

if TYPE_CHECKING:
    import argparse

    from duly.core.json_bytes import Json
    from duly.jobs.dead import DeadLetter, EventOfDead

EXAMPLES = """\
examples:
  duly dead shop:app                                       the latest first
  duly dead postgresql://shop@db/shop --source stripe --since 2h --json
  duly dead show shop:app 0198c3a2-5d1e-7b4f-9c60-8a2f41d7e305      with its event or payload
  duly dead discard shop:app 0198c3a2-5d1e-7b4f-9c60-8a2f41d7e305   delete it for good

The list shows no payloads: they are shown one by one. Of an event's body up to 16 KiB are shown,
without what looks like a secret. `duly replay` lets dead jobs run again."""
ACTIONS = JOBS.actions
FILTERS = ("source", "type", "name", "since", "until")
ASKED = "did it happen? Tell with `duly resolve`"
PRUNED = "pruned: its source keeps bodies only for a while (body_retention=)"
HEADINGS = ("ID", "DIED", "ATTEMPTS", "JOB", "EVENT", "WHY")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add_words(
        parser,
        action="show or discard, followed by the id of a job; the list unless given",
        app=f"whose jobs: {PLACE}",
        id="the id of a job",
    )
    add_filters(parser)
    add_limit(parser)
    add_table_options(parser)
    add_json_option(parser)


def add_filters(parser: argparse.ArgumentParser) -> None:
    """The options that choose among dead jobs."""
    parser.add_argument("--source", help="only those of events of this source")
    parser.add_argument("--type", help="only those of events of this type")
    parser.add_argument("--name", help="only those of the handler of this name")
    add_times(parser)


def selection_from_options(arguments: argparse.Namespace, job: str | None) -> JobSelection:
    """The dead jobs that the options choose."""
    given = given_filters(arguments, FILTERS)
    with errors_in_shell_words():
        return job_selection(job, **given)


def run(arguments: argparse.Namespace) -> int:
    """List, show or discard."""
    words = [arguments.action, arguments.app, arguments.id]
    action = next((word for word in words if word in ACTIONS), None)
    place, job = split_place_and_id([word for word in words if word not in ACTIONS])
    if action is None:
        if job is not None:
            raise UsageError("show it, or discard it? As in `duly dead show shop:app ID`")
        return list_letters(arguments, place)
    if job is None:
        raise UsageError(f"which job? Give its id, as in `duly dead {action} shop:app ID`")
    if arguments.limit is not None or any(getattr(arguments, name) for name in FILTERS):
        raise UsageError(
            f"`duly dead {action}` takes the id of one job: leave out the other options"
        )
    return show(arguments, place, job) if action == "show" else discard(arguments, place, job)


def list_letters(arguments: argparse.Namespace, place: str | None) -> int:
    """One line for each, without its payload."""
    limit = limit_of(arguments)
    which = selection_from_options(arguments, None)
    with store_at(arguments, place) as store:
        letters = finish(list_dead(store.sync_runner, which, limit))
    print_answer(arguments, table(letters, limit), [document(letter) for letter in letters])
    return 0


def show(arguments: argparse.Namespace, place: str | None, job: str) -> int:
    """All that is known of one."""
    with store_at(arguments, place) as store:
        letters = finish(list_dead(store.sync_runner, JobSelection(job.lower()), 1))
        if not letters:
            raise not_dead_error(job, JOBS)
        event = finish(read_event(store.sync_runner, job.lower()))
    [letter] = letters
    told = {**document(letter, whole=True), "event": document_event(event)}
    print_answer(arguments, letter_text(letter, event), told)
    return 0


def discard(arguments: argparse.Namespace, place: str | None, job: str) -> int:
    """Delete one for good."""
    with store_at(arguments, place) as store:
        done = finish(discard_dead(store.sync_runner, job.lower()))
    if not done:
        raise not_dead_error(job, JOBS)
    print_answer(arguments, f"discarded {job}", {"discarded": job})
    return 0


def document(letter: DeadLetter, *, whole: bool = False) -> dict[str, Json]:
    """A letter for programs; whole, with what may be long or private."""
    failure = letter.failure
    told: dict[str, Json] = {
        "id": letter.id,
        "name": letter.name,
        "queue": letter.queue,
        "source": letter.source,
        "event_id": letter.event_id,
        "type": letter.type,
        "attempts": letter.attempts,
        "rescues": letter.rescues,
        "max_attempts": letter.max_attempts,
        "created_at": letter.created_at.isoformat(),
        "dead_at": letter.dead_at.isoformat(),
        "failure": failure_document(failure),
        "unknown": [{"name": one.name, "key": one.key} for one in letter.unknown],
    }
    if whole:
        told |= {
            "payload": letter.payload,
            "traceback": None if failure is None else failure.traceback,
        }
    return told


def document_event(event: EventOfDead | None) -> Json:
    """The event of a letter for programs; its body is bounded and redacted."""
    if event is None:
        return None
    return {
        "id": event.id,
        "type": event.type,
        "source": event.source,
        "received_at": event.received_at.isoformat(),
        "time": None if event.time is None else event.time.isoformat(),
        "body": event.body,
        "body_size": event.size,
        "body_cut": event.is_cut,
        "body_pruned": event.body is None,
    }


def table(letters: list[DeadLetter], limit: int) -> str:
    """A line for each letter, its columns under each other."""
    if not letters:
        return "no dead letters"
    lines = align_texts([HEADINGS, *(line(letter) for letter in letters)])
    if len(letters) == limit:
        lines.append(limit_note(limit))
    return "\n".join(lines)


def line(letter: DeadLetter) -> tuple[str, ...]:
    """What the list says of a letter."""
    return (
        letter.id,
        format_time(letter.dead_at),
        f"{letter.attempts} of {letter.max_attempts}",
        on_one_line(letter.name),
        event_text(letter),
        short_failure_text(letter.failure),
    )


def event_text(letter: DeadLetter) -> str:
    """The event that a job was about."""
    if letter.event_id is None:
        return "-"
    kind = f" ({letter.type})" if letter.type else ""
    return on_one_line(f"{letter.source} {letter.event_id}{kind}")


def letter_text(letter: DeadLetter, event: EventOfDead | None) -> str:
    """All about one letter, for a person."""
    facts = [
        ("job", letter.id),
        ("handler", f"{on_one_line(letter.name)}, queue {on_one_line(letter.queue)}"),
        ("event", event_text(letter)),
        ("enqueued", format_time(letter.created_at)),
        ("died", format_time(letter.dead_at)),
        ("attempts", f"{letter.attempts} of {letter.max_attempts}, {letter.rescues} rescues"),
        ("error", failure_text(letter.failure)),
        *(("unknown", f"{one.name}, key {one.key}: {ASKED}") for one in letter.unknown),
        *content_rows(letter, event),
    ]
    lines = [f"{name:<9} {told}" for name, told in facts]
    if letter.failure is not None and letter.failure.traceback:
        lines += ["", printable(letter.failure.traceback).rstrip()]
    return "\n".join(lines)


def content_rows(letter: DeadLetter, event: EventOfDead | None) -> list[tuple[str, str]]:
    """What a job was given: the body of its event, or its payload."""
    if event is None:
        return [("payload", json.dumps(letter.payload))]
    body = PRUNED if event.body is None else printable(event.body).rstrip()
    if event.is_cut:
        body += f"\n[… {(event.size or 0) - SHOWN_BYTES:,} of {event.size:,} bytes left out …]"
    return [("received", format_time(event.received_at)), ("body", body)]
