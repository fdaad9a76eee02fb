"""``duly outbox``: count messages by destination, show one; list, replay, discard dead ones."""

from __future__ import annotations

import base64
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
from duly.core.errors import UsageError
from duly.core.onestep import finish
from duly.outbox.dead import (
    DeadMessage,
    OutboxMessage,
    discard_dead,
    list_dead,
    look_up,
    message_selection,
    plan_of,
)
from duly.outbox.stats import count_messages

if TYPE_CHECKING:
    from duly.core.json_bytes import Json
    from duly.core.session import Runner
    from duly.outbox.dead import FinishedMessage
    from duly.outbox.stats import OutboxStats

EXAMPLES = """\
examples:
  duly outbox shop:app                      counts for each destination
  duly outbox dead shop:app --destination https://example.com --since 2h
  duly outbox show shop:app ID              its state, error, headers and body
  duly outbox replay shop:app ID            send it again, same id and key
  duly outbox replay shop:app --destination mail --since 1d --dry-run
  duly outbox replay shop:app --all --rate 5     five in a second, from now on
  duly outbox discard shop:app ID           delete it for good

READY can be sent now, and OLDEST is how long the first of them could have
been; WAITING is sent later; LEASED is on its way; DEAD was given up. Below, the
relays that live are named; if messages wait and there is none, stderr says so.
What was sent is not here any more: `show` says when that was, while the
history knows.
The list of dead messages shows no addresses and no bodies: they are shown one
by one. With --rate the times are written with the messages: this command does
not wait, and may be closed."""
MEMBERS = (
    "id", "destination", "signer", "attempts", "rescues", "max_attempts", "created_at", "dead_at",
)  # fmt: skip
COUNTS = ("ready", "oldest", "waiting", "leased", "dead")
NO_RELAY = (
    "no relay is running, so messages wait: run `duly relay shop:app`, or `duly serve shop:app`, "
    "which has one in it"
)
STATES = {
    "ready": "ready to be sent since",
    "waiting": "waiting, sent not before",
    "leased": "on its way, leased until",
    "dead": "dead since",
}
# Characters of a body that a person is shown.
LONGEST_BODY = 4000


class OutboxCommand(AdminCommand[DeadMessage]):
    """``duly outbox``."""

    name = "outbox"
    noun = "message"
    runs = "be sent"
    ids = "the id of a message: of any to show it, of a dead one to replay or discard it"
    headings = ("DESTINATION",)
    filters = {  # noqa: RUF012  # declared as a ClassVar by the base
        "destination": (
            "ORIGIN",
            "only those to this origin (https://example.com) or transport (mail)",
        )
    }

    verbs = DeadVerbs(message_selection, plan_of, list_dead, discard_dead)

    def list_row(self, dead: DeadMessage) -> tuple[str, ...]:
        """Return the destination of a dead message."""
        return (on_one_line(dead.destination),)

    def list_document(self, dead: DeadMessage | OutboxMessage) -> dict[str, Json]:
        """Return a message for programs, without its URL, which may be a secret."""
        return members(dead, *MEMBERS) | {"failure": failure_document(dead.failure)}

    def show_one(self, runner: Runner, row_id: str) -> CommandAnswer:
        """Return a message in any state, or what the history knows of it."""
        found = finish(look_up(runner, row_id))
        if found is None:
            raise UsageError(f"no message {row_id} is known here: it never was, or it is forgotten")
        if not isinstance(found, OutboxMessage):
            return CommandAnswer(finished_text(found), finished_document(found))
        document = self.list_document(found) | content_document(found)
        return CommandAnswer(message_text(found), document)

    def count_all(self, runner: Runner) -> CommandAnswer:
        """Count the messages of each destination, and name the relays."""
        stats = finish(count_messages(runner))
        alone = not stats.relays and stats.ready + stats.waiting + stats.leased
        return CommandAnswer(stats_text(stats), stats_document(stats), NO_RELAY if alone else None)


COMMAND = OutboxCommand()
add, run = COMMAND.add, COMMAND.run


def message_text(message: OutboxMessage) -> str:
    """Return all that is known of a message, for people."""
    headers = message.headers.items()
    facts = [
        ("message", message.id),
        ("state", state_text(message)),
        ("to", on_one_line(f"{message.method} {message.url}")),
        ("signer", on_one_line(message.signer or "none")),
        ("staged", format_time(message.created_at)),
        ("attempts", f"{message.attempts} of {message.max_attempts}, {message.rescues} rescues"),
        ("error", failure_text(message.failure)),
        *(("header", on_one_line(f"{name}: {value}")) for name, value in headers),
        ("body", describe_body(message.body)),
    ]
    text = decode_body(message.body)
    body = ["", shorten_body(text)] if text else []
    return "\n".join([*fact_lines(facts), *body, *traceback_lines(message.failure)])


def content_document(message: OutboxMessage) -> dict[str, Json]:
    """Return what may be long or private, for programs; bytes that are no text as base64."""
    text, body = decode_body(message.body), message.body
    return members(message, "state", "run_at", "leased_until", "method", "url") | {
        "headers": dict(message.headers),
        "body": text,
        "base64": None if body is None or text is not None else base64.b64encode(body).decode(),
        "traceback": None if message.failure is None else message.failure.traceback,
    }


def state_text(message: OutboxMessage) -> str:
    """Return the state of a message, with its time."""
    times = {"dead": message.dead_at, "leased": message.leased_until}
    return f"{STATES[message.state]} {format_time(times.get(message.state) or message.run_at)}"


def finished_text(finished: FinishedMessage) -> str:
    """Return what the history knows of a message that has left the table."""
    attempt = f", in attempt {finished.attempts}" if finished.outcome == "sent" else ""
    return (
        f"message {finished.id} to {on_one_line(finished.destination)} was {finished.outcome} at "
        f"{format_time(finished.at)}{attempt}"
    )


def finished_document(finished: FinishedMessage) -> dict[str, Json]:
    """Return the same for programs."""
    return members(finished, "id", "destination", "attempts") | {
        "state": finished.outcome,
        "ended_at": finished.at.isoformat(),
    }


def describe_body(body: bytes | None) -> str:
    """Return the size of a body, and whether it is text."""
    if body is None:
        return "-"
    size = f"{len(body):,} bytes"
    return size if decode_body(body) is not None else f"{size} that are no text: --json has them"


def shorten_body(text: str) -> str:
    """Return the first characters of a body."""
    left = len(text) - LONGEST_BODY
    shown = printable(text[:LONGEST_BODY])
    return f"{shown}\n… and {left:,} characters more: --json has them all" if left > 0 else shown


def decode_body(body: bytes | None) -> str | None:
    """Return a body as text; None where it is no text."""
    if body is None or b"\0" in body:
        return None
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def stats_text(stats: OutboxStats) -> str:
    """Return a line for each destination, and one for each relay."""
    lines = counts_table("destination", COUNTS, [*stats.destinations.values()]) or ["no messages"]
    lines += [f"relay {on_one_line(one.host)}, process {one.pid}" for one in stats.relays]
    return "\n".join(lines)


def stats_document(stats: OutboxStats) -> Json:
    """Return the same for programs."""
    return {
        "destinations": counts_documents("destination", COUNTS, [*stats.destinations.values()]),
        "relays": [members(one, "id", "host", "pid") for one in stats.relays],
    }
