"""How messages are shown: dead ones in a list, any one by one, and to programs."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from duly.app.output import on_one_line, printable
from duly.cli.dead_letters import (
    failure_document,
    failure_text,
    format_time,
    limit_note,
    short_failure_text,
)
from duly.cli.tables import fold_columns, terminal_width

if TYPE_CHECKING:
    from datetime import datetime

    from duly.core.json_bytes import Json
    from duly.outbox.dead import DeadMessage, FinishedMessage, OutboxMessage

HEADINGS = ("ID", "DIED", "ATTEMPTS", "DESTINATION", "WHY")
STATES = {
    "ready": "ready to be sent since",
    "waiting": "waiting, sent not before",
    "leased": "on its way, leased until",
    "dead": "dead since",
}
# Characters of a body that a person is shown.
LONGEST_BODY = 4000


def table(letters: list[DeadMessage], limit: int) -> str:
    """A line for each letter, its columns under each other."""
    if not letters:
        return "no dead messages"
    lines = fold_columns([HEADINGS, *(line(letter) for letter in letters)], terminal_width())
    if len(letters) == limit:
        lines.append(limit_note(limit))
    return "\n".join(lines)


def line(letter: DeadMessage) -> tuple[str, ...]:
    """What the list says of a letter."""
    return (
        letter.id,
        format_time(letter.dead_at),
        f"{letter.attempts} of {letter.max_attempts}",
        on_one_line(letter.destination),
        short_failure_text(letter.failure),
    )


def document(letter: DeadMessage | OutboxMessage) -> dict[str, Json]:
    """A letter for programs. Its address may be a secret, and is only in the whole document."""
    return {
        "id": letter.id,
        "destination": letter.destination,
        "signer": letter.signer,
        "attempts": letter.attempts,
        "rescues": letter.rescues,
        "max_attempts": letter.max_attempts,
        "created_at": letter.created_at.isoformat(),
        "dead_at": iso_time(letter.dead_at),
        "failure": failure_document(letter.failure),
    }


def iso_time(time: datetime | None) -> str | None:
    """A time for programs."""
    return None if time is None else time.isoformat()


def whole_document(letter: OutboxMessage) -> dict[str, Json]:
    """The same with what may be long or private; bytes that are no text as base64."""
    text, body = text_of(letter.body), letter.body
    return document(letter) | {
        "state": letter.state,
        "run_at": iso_time(letter.run_at),
        "leased_until": iso_time(letter.leased_until),
        "method": letter.method,
        "url": letter.url,
        "headers": dict(letter.headers),
        "body": text,
        "base64": None if body is None or text is not None else base64.b64encode(body).decode(),
        "traceback": None if letter.failure is None else letter.failure.traceback,
    }


def message_text(letter: OutboxMessage) -> str:
    """All about one message, for a person."""
    facts = [
        ("message", letter.id),
        ("state", state_of(letter)),
        ("to", on_one_line(f"{letter.method} {letter.url}")),
        ("signer", on_one_line(letter.signer or "none")),
        ("staged", format_time(letter.created_at)),
        ("attempts", f"{letter.attempts} of {letter.max_attempts}, {letter.rescues} rescues"),
        ("error", failure_text(letter.failure)),
        *(("header", on_one_line(f"{name}: {value}")) for name, value in letter.headers.items()),
        ("body", describe_body(letter.body)),
    ]
    lines = [f"{name:<9} {told}" for name, told in facts]
    text = text_of(letter.body)
    if text:
        lines += ["", shorten_text(text)]
    if letter.failure is not None and letter.failure.traceback:
        lines += ["", printable(letter.failure.traceback).rstrip()]
    return "\n".join(lines)


def state_of(letter: OutboxMessage) -> str:
    """What a message waits for, and how long."""
    times = {"dead": letter.dead_at, "leased": letter.leased_until}
    return f"{STATES[letter.state]} {format_time(times.get(letter.state) or letter.run_at)}"


def gone_text(gone: FinishedMessage) -> str:
    """What is left to say of a message that has left the table."""
    tries = f", in attempt {gone.attempts}" if gone.outcome == "sent" else ""
    return (
        f"message {gone.id} to {on_one_line(gone.destination)} was {gone.outcome} at "
        f"{format_time(gone.at)}{tries}"
    )


def gone_document(gone: FinishedMessage) -> dict[str, Json]:
    """The same for programs."""
    return {
        "id": gone.id,
        "state": gone.outcome,
        "destination": gone.destination,
        "attempts": gone.attempts,
        "ended_at": iso_time(gone.at),
    }


def describe_body(body: bytes | None) -> str:
    """How much of what a body is."""
    if body is None:
        return "-"
    size = f"{len(body):,} bytes"
    return size if text_of(body) is not None else f"{size} that are no text: --json has them"


def shorten_text(text: str) -> str:
    """As much of a text as a person reads."""
    left = len(text) - LONGEST_BODY
    told = printable(text[:LONGEST_BODY])
    return f"{told}\n… and {left:,} characters more: --json has them all" if left > 0 else told


def text_of(body: bytes | None) -> str | None:
    """A body as text; None where it is none."""
    if body is None or b"\0" in body:
        return None
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None
