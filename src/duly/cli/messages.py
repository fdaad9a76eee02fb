"""How messages are shown: dead ones in a list, any one by one, and to programs."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from duly.app.output import on_one_line, printable
from duly.cli.dead_letters import at, failed, more_than, shortly, why
from duly.cli.tables import folded, terminal_width

if TYPE_CHECKING:
    from datetime import datetime

    from duly.core.json_bytes import Json
    from duly.outbox.dead import DeadMessage, Gone, OutboxMessage

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
    lines = folded([HEADINGS, *(line(letter) for letter in letters)], terminal_width())
    if len(letters) == limit:
        lines.append(more_than(limit))
    return "\n".join(lines)


def line(letter: DeadMessage) -> tuple[str, ...]:
    """What the list says of a letter."""
    return (
        letter.id,
        at(letter.dead_at),
        f"{letter.attempts} of {letter.max_attempts}",
        on_one_line(letter.destination),
        shortly(letter.failure),
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
        "dead_at": written(letter.dead_at),
        "failure": failed(letter.failure),
    }


def written(time: datetime | None) -> str | None:
    """A time for programs."""
    return None if time is None else time.isoformat()


def whole_document(letter: OutboxMessage) -> dict[str, Json]:
    """The same with what may be long or private; bytes that are no text as base64."""
    text, body = text_of(letter.body), letter.body
    return document(letter) | {
        "state": letter.state,
        "run_at": written(letter.run_at),
        "leased_until": written(letter.leased_until),
        "method": letter.method,
        "url": letter.url,
        "headers": dict(letter.headers),
        "body": text,
        "base64": None if body is None or text is not None else base64.b64encode(body).decode(),
        "traceback": None if letter.failure is None else letter.failure.traceback,
    }


def account(letter: OutboxMessage) -> str:
    """All about one message, for a person."""
    facts = [
        ("message", letter.id),
        ("state", state_of(letter)),
        ("to", on_one_line(f"{letter.method} {letter.url}")),
        ("signer", on_one_line(letter.signer or "none")),
        ("staged", at(letter.created_at)),
        ("attempts", f"{letter.attempts} of {letter.max_attempts}, {letter.rescues} rescues"),
        ("error", why(letter.failure)),
        *(("header", on_one_line(f"{name}: {value}")) for name, value in letter.headers.items()),
        ("body", sized(letter.body)),
    ]
    lines = [f"{name:<9} {told}" for name, told in facts]
    text = text_of(letter.body)
    if text:
        lines += ["", bounded(text)]
    if letter.failure is not None and letter.failure.traceback:
        lines += ["", printable(letter.failure.traceback).rstrip()]
    return "\n".join(lines)


def state_of(letter: OutboxMessage) -> str:
    """What a message waits for, and how long."""
    times = {"dead": letter.dead_at, "leased": letter.leased_until}
    return f"{STATES[letter.state]} {at(times.get(letter.state) or letter.run_at)}"


def obituary(gone: Gone) -> str:
    """What is left to say of a message that has left the table."""
    tries = f", in attempt {gone.attempts}" if gone.outcome == "sent" else ""
    return (
        f"message {gone.id} to {on_one_line(gone.destination)} was {gone.outcome} at "
        f"{at(gone.at)}{tries}"
    )


def gone_document(gone: Gone) -> dict[str, Json]:
    """The same for programs."""
    return {
        "id": gone.id,
        "state": gone.outcome,
        "destination": gone.destination,
        "attempts": gone.attempts,
        "ended_at": written(gone.at),
    }


def sized(body: bytes | None) -> str:
    """How much of what a body is."""
    if body is None:
        return "-"
    size = f"{len(body):,} bytes"
    return size if text_of(body) is not None else f"{size} that are no text: --json has them"


def bounded(text: str) -> str:
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
