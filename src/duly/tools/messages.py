"""How dead messages are shown: in a list, one by one, and to programs."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from duly.tools.letters import LONGEST_REASON, at, failed, more_than, why
from duly.tools.output import on_one_line, printable
from duly.tools.tables import texts

if TYPE_CHECKING:
    from duly._kernel.results import Json
    from duly.outbox.letters import DeadMessage

HEADINGS = ("ID", "DIED", "ATTEMPTS", "DESTINATION", "WHY")
# Characters of a body that a person is shown.
LONGEST_BODY = 4000


def table(letters: list[DeadMessage], limit: int) -> str:
    """A line for each letter, its columns under each other."""
    if not letters:
        return "no dead messages"
    lines = texts([HEADINGS, *(line(letter) for letter in letters)])
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
        why(letter.failure)[:LONGEST_REASON],
    )


def document(letter: DeadMessage) -> dict[str, Json]:
    """A letter for programs. Its address may be a secret, and is only in the whole document."""
    return {
        "id": letter.id,
        "destination": letter.destination,
        "signer": letter.signer,
        "attempts": letter.attempts,
        "rescues": letter.rescues,
        "max_attempts": letter.max_attempts,
        "created_at": letter.created_at.isoformat(),
        "dead_at": letter.dead_at.isoformat(),
        "failure": failed(letter.failure),
    }


def whole_document(letter: DeadMessage) -> dict[str, Json]:
    """The same with what may be long or private; bytes that are no text as base64."""
    text, body = text_of(letter.body), letter.body
    return document(letter) | {
        "method": letter.method,
        "url": letter.url,
        "headers": dict(letter.headers),
        "body": text,
        "base64": None if body is None or text is not None else base64.b64encode(body).decode(),
        "traceback": None if letter.failure is None else letter.failure.traceback,
    }


def account(letter: DeadMessage) -> str:
    """All about one letter, for a person."""
    facts = [
        ("message", letter.id),
        ("to", on_one_line(f"{letter.method} {letter.url}")),
        ("signer", on_one_line(letter.signer or "-")),
        ("staged", at(letter.created_at)),
        ("died", at(letter.dead_at)),
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
