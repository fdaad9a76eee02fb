"""``duly jobs``: count jobs by queue; list, show, replay and discard dead ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from duly.app.output import on_one_line, printable
from duly.cli.admin import AdminCommand, CommandAnswer, DeadVerbs
from duly.cli.listing import (
    counts_documents,
    counts_table,
    fact_lines,
    failure_document,
    failure_text,
    format_time,
    members,
    traceback_lines,
)
from duly.core.onestep import finish
from duly.jobs.dead import (
    SHOWN_BYTES,
    DeadLetter,
    JobSelection,
    discard_dead,
    job_selection,
    list_dead,
    plan_of,
    read_event,
)
from duly.jobs.stats import count_jobs

if TYPE_CHECKING:
    from duly.core.json_bytes import Json
    from duly.core.session import Runner
    from duly.jobs.dead import EventOfDead
    from duly.jobs.stats import Stats

EXAMPLES = """\
examples:
  duly jobs shop:app                        counts for each queue, and workers
  duly jobs dead shop:app                   dead jobs, the latest first
  duly jobs dead postgresql://shop@db/shop --source stripe --since 2h --json
  duly jobs show shop:app ID                a dead job with its event or payload
  duly jobs replay shop:app ID              run it again, with all its attempts
  duly jobs replay shop:app --source stripe --type invoice.paid --dry-run
  duly jobs replay shop:app --name charge --rate 5     five in a second
  duly jobs discard shop:app ID             delete it for good

READY can run now, and OLDEST is how long the first of them could have; WAITING
runs later (PARKED: no worker knew its handler); LEASED is at work; DEAD was
given up. The list of dead jobs shows no payloads: they are shown one by one. Of
an event's body up to 16 KiB are shown, without what looks like a secret.
A replayed job runs once, however many people replay it at the same time. With
--rate the times are written with the jobs: this command does not wait, and may
be closed."""
MEMBERS = (
    "id", "name", "queue", "source", "event_id", "type", "attempts", "rescues", "max_attempts",
    "created_at", "dead_at",
)  # fmt: skip
COUNTS = ("ready", "oldest", "waiting", "parked", "leased", "dead")
UNKNOWN = "did it happen? Tell with `duly effects resolve`"
PRUNED = "pruned: its source keeps bodies only for a while (body_retention=)"


class JobsCommand(AdminCommand[DeadLetter]):
    """``duly jobs``."""

    name = "jobs"
    noun = "job"
    runs = "run"
    ids = "the id of a dead job, to show, replay or discard it"
    headings = ("JOB", "EVENT")
    filters = {  # noqa: RUF012  # declared as a ClassVar by the base
        "source": ("SOURCE", "only those of events of this source"),
        "type": ("TYPE", "only those of events of this type"),
        "name": ("NAME", "only those of the handler of this name"),
    }

    verbs = DeadVerbs(job_selection, plan_of, list_dead, discard_dead)

    def list_row(self, dead: DeadLetter) -> tuple[str, ...]:
        """Return the handler and the event of a dead job."""
        return on_one_line(dead.name), event_text(dead)

    def list_document(self, dead: DeadLetter) -> dict[str, Json]:
        """Return a dead job for programs, without its payload."""
        return members(dead, *MEMBERS) | {
            "failure": failure_document(dead.failure),
            "unknown": [one._asdict() for one in dead.unknown],
        }

    def show_one(self, runner: Runner, row_id: str) -> CommandAnswer:
        """Return a dead job with its payload or its event."""
        found = finish(list_dead(runner, JobSelection(row_id), 1))
        if not found:
            raise self.not_dead(row_id)
        event = finish(read_event(runner, row_id))
        [dead] = found
        document = {
            **self.list_document(dead),
            "payload": dead.payload,
            "traceback": None if dead.failure is None else dead.failure.traceback,
            "event": event_document(event),
        }
        return CommandAnswer(dead_text(dead, event), document)

    def count_all(self, runner: Runner) -> CommandAnswer:
        """Count the jobs of each queue, and name the workers."""
        stats = finish(count_jobs(runner))
        return CommandAnswer(stats_text(stats), stats_document(stats))


COMMAND = JobsCommand()
add, run = COMMAND.add, COMMAND.run


def event_text(dead: DeadLetter) -> str:
    """Return the event of a dead job on one line."""
    if dead.event_id is None:
        return "-"
    kind = f" ({dead.type})" if dead.type else ""
    return on_one_line(f"{dead.source} {dead.event_id}{kind}")


def dead_text(dead: DeadLetter, event: EventOfDead | None) -> str:
    """Return all that is known of a dead job, for people."""
    facts = [
        ("job", dead.id),
        ("handler", f"{on_one_line(dead.name)}, queue {on_one_line(dead.queue)}"),
        ("event", event_text(dead)),
        ("enqueued", format_time(dead.created_at)),
        ("died", format_time(dead.dead_at)),
        ("attempts", f"{dead.attempts} of {dead.max_attempts}, {dead.rescues} rescues"),
        ("error", failure_text(dead.failure)),
        *(("unknown", f"{one.name}, key {one.key}: {UNKNOWN}") for one in dead.unknown),
        *content_facts(dead, event),
    ]
    return "\n".join([*fact_lines(facts), *traceback_lines(dead.failure)])


def content_facts(dead: DeadLetter, event: EventOfDead | None) -> list[tuple[str, str]]:
    """Return what a job was given: the body of its event, or its payload."""
    if event is None:
        return [("payload", json.dumps(dead.payload))]
    body = PRUNED if event.body is None else printable(event.body).rstrip()
    if event.is_cut:
        body += f"\n[… {(event.size or 0) - SHOWN_BYTES:,} of {event.size:,} bytes left out …]"
    return [("received", format_time(event.received_at)), ("body", body)]


def event_document(event: EventOfDead | None) -> Json:
    """Return the event of a dead job for programs; its body is bounded and redacted."""
    if event is None:
        return None
    return members(event, "id", "type", "source", "received_at", "time", "body") | {
        "body_size": event.size,
        "body_cut": event.is_cut,
        "body_pruned": event.body is None,
    }


def stats_text(stats: Stats) -> str:
    """Return a line for each queue, and one for each worker."""
    lines = counts_table("queue", COUNTS, [*stats.queues.values()]) or ["no jobs"]
    for worker in stats.workers:
        queues = on_one_line(", ".join(worker.queues))
        lines.append(f"worker {on_one_line(worker.host)}, process {worker.pid}: {queues}")
    return "\n".join(lines if stats.workers else [*lines, "no worker is running"])


def stats_document(stats: Stats) -> Json:
    """Return the same for programs."""
    return {
        "queues": counts_documents("queue", COUNTS, [*stats.queues.values()]),
        "workers": [
            members(one, "id", "host", "pid") | {"queues": list(one.queues)}
            for one in stats.workers
        ],
    }
