"""What is recorded of a failed run: enough for a person to see why, bounded, without secrets.

Nothing here raises, for any exception: a job that failed must be recorded.
"""

from __future__ import annotations

import json
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.core.errors import FOR_RECEIVERS
from duly.core.redaction import clean_text, redact_and_trim

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType, TracebackType

# (characters from the beginning, characters from the end); the line between them has room in the
# 100 that are left of the round number.
TYPE = (200, 0)
MESSAGE = (1_400, 500)  # 2,000 in all
CAUSE = (400, 500)  # 1,000 in all
# 8,000 in all: the end says what failed, the beginning how it came there.
TRACEBACK = (2_900, 5_000)
# Of frames, as many as the text has room for, and of exceptions, what a person would still read.
FIRST_FRAMES, LAST_FRAMES = 20, 40
MOST_EXCEPTIONS = 12
MOST_NOTES = 5
# Modules that run handlers: their frames above the user's own say nothing about the failure.
MACHINERY = frozenset({"duly", "asyncio", "concurrent", "contextlib", "threading"})
BECAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
MEANWHILE = "\nDuring handling of the above exception, another exception occurred:\n\n"
# Where public classes are imported from; others of duly's are named as if from its root.
PUBLIC_MODULES = frozenset({"duly.errors", "duly.types"})
# Characters of a message, and of its cause, on one line of the log.
LOG_LENGTH = 300
# Types of failures that say nothing to a person beside their message.
OF_MESSAGES = frozenset(
    f"duly.{name}" for name in ("Answered", "Unreached", "Unsigned", "Unsendable", "Stuck")
)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run failed: the last one of a job that will run again, or of a dead letter."""

    type: str
    message: str
    traceback: str | None
    attempt: int
    # The first exception of the chain that led to it; None where its message says that already.
    cause: str | None = None


def exception_record(problem: BaseException, attempt: int, secrets: Sequence[str] = ()) -> bytes:
    """The record of an exception, as UTF-8 JSON."""
    message = text_of(problem)
    try:
        trace = "".join(TracebackText(secrets).chain(problem))
        cause = cause_of(problem, message)
    except Exception as other:  # a class may lie about all it is made of
        trace = f"The traceback could not be read: {name_of(other)}\n"
        cause = None
    return encode_failure(
        Failure(
            type=redact_and_trim(name_of(problem), secrets, *TYPE),
            message=redact_and_trim(message, secrets, *MESSAGE),
            traceback=redact_and_trim(clean_text(trace), secrets, *TRACEBACK),
            attempt=attempt,
            cause=None if cause is None else redact_and_trim(cause, secrets, *CAUSE),
        )
    )


def reason_record(
    reason: str, attempt: int, kind: str = "duly.Dead", secrets: Sequence[str] = ()
) -> bytes:
    """The record of an end without an exception: a decision, a timeout, a rescue."""
    message = redact_and_trim(text_of(reason), secrets, *MESSAGE)
    return encode_failure(Failure(type=kind, message=message, traceback=None, attempt=attempt))


def encode_failure(failure: Failure) -> bytes:
    """Return the bytes that `decode_failure` reads."""
    fields: dict[str, str | int | None] = {
        "type": failure.type,
        "message": failure.message,
        "traceback": failure.traceback,
        "attempt": failure.attempt,
    }
    if failure.cause is not None:
        fields["cause"] = failure.cause
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def decode_failure(stored: bytes | memoryview | None) -> Failure | None:
    """Return the record that a row holds; one in another form is shown as it is."""
    if stored is None:
        return None
    text = bytes(stored).decode("utf-8", "backslashreplace")
    try:
        fields = json.loads(text)
        trace, cause = fields["traceback"], fields.get("cause")
        return Failure(
            type=str(fields["type"]),
            message=str(fields["message"]),
            traceback=None if trace is None else str(trace),
            attempt=int(fields["attempt"]),
            cause=None if cause is None else str(cause),
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return Failure(
            type="unknown", message=redact_and_trim(text, (), *MESSAGE), traceback=None, attempt=0
        )


class TracebackText:
    """The text of an exception and of those around it, with room for a few of them."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self.secrets = secrets
        self.room = MOST_EXCEPTIONS

    def chain(self, problem: BaseException) -> Iterator[str]:
        """An exception, after those that led to it."""
        links: list[tuple[str, BaseException]] = []
        known: set[int] = set()
        link: BaseException | None = problem
        while link is not None and self.room > 0:
            self.room -= 1
            known.add(id(link))
            before, joint = previous_exception(link)
            if id(before) in known:  # a circle
                before = None
            links.append(("" if before is None else joint, link))
            link = before
        if link is not None:
            yield "[… earlier exceptions left out …]\n"
        for joint, each in reversed(links):
            yield joint
            yield from self.format_one(each)

    def format_one(self, problem: BaseException) -> Iterator[str]:
        """One exception: its frames, its type and message, its notes, its members."""
        yield from frames_of(problem.__traceback__)
        message = self.message_text(problem)
        yield f"{name_of(problem)}: {message}\n" if message else f"{name_of(problem)}\n"
        notes = getattr(problem, "__notes__", None)
        for note in notes[:MOST_NOTES] if isinstance(notes, list) else ():
            if not (type(note) is str and note == FOR_RECEIVERS):
                yield f"{self.message_text(note)}\n"
        if isinstance(problem, BaseExceptionGroup):
            yield from self.members(problem.exceptions)

    def members(self, exceptions: Sequence[BaseException]) -> Iterator[str]:
        """The exceptions of a group."""
        for number, member in enumerate(exceptions, 1):
            if self.room <= 0:
                yield "  [… further exceptions left out …]\n"
                return
            yield f"  +---- {number:,} of {len(exceptions):,}\n"
            text = "".join(self.chain(member))
            yield "".join(f"  | {line}" for line in text.splitlines(keepends=True))

    def message_text(self, value: object) -> str:
        """A message, trimmed and redacted before it is indented: a secret may have many lines."""
        return redact_and_trim(text_of(value), self.secrets, *MESSAGE)


def cause_of(problem: BaseException, message: str) -> str | None:
    """The exception that began the chain, on one line, unless the message repeats it."""
    first = problem
    for _ in range(MOST_EXCEPTIONS):
        before, _joint = previous_exception(first)
        if before is None or before is problem:
            break
        first = before
    told = text_of(first)
    if first is problem or (told and told.splitlines()[0] in message):
        return None
    return f"{name_of(first)}: {told}" if told else name_of(first)


def shorten(text: str, most: int) -> str:
    """A text on one line: all of it, or its two ends. The end often says what was wrong."""
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    tail = most * 3 // 5
    return f"{line[: most - tail - 3].rstrip()} … {line[-tail:].lstrip()}"


def previous_exception(problem: BaseException) -> tuple[BaseException | None, str]:
    """The exception before this one, and the words between the two."""
    if problem.__cause__ is not None:
        return problem.__cause__, BECAUSE
    return None if problem.__suppress_context__ else problem.__context__, MEANWHILE


def frames_of(trace: TracebackType | None) -> Iterator[str]:
    """The frames from the user's code on; of a deep recursion the first and the last."""
    frames = list(traceback.walk_tb(trace))
    own = (at for at, (frame, _) in enumerate(frames) if not is_machinery(frame))
    frames = frames[next(own, 0) :]
    if not frames:
        return
    yield "Traceback (most recent call last):\n"
    hidden = len(frames) - FIRST_FRAMES - LAST_FRAMES
    if hidden <= 0:
        yield from format_frames(frames)
        return
    yield from format_frames(frames[:FIRST_FRAMES])
    yield f"  [… {hidden:,} frames left out …]\n"
    yield from format_frames(frames[-LAST_FRAMES:])


def format_frames(frames: list[tuple[FrameType, int]]) -> list[str]:
    """Frames as the interpreter prints them."""
    return traceback.StackSummary.extract(iter(frames)).format()


def is_machinery(frame: FrameType) -> bool:
    """Whether a frame belongs to what runs handlers."""
    module = frame.f_globals.get("__name__")
    return isinstance(module, str) and module.partition(".")[0] in MACHINERY


def text_of(value: object) -> str:
    """Return ``str(value)`` as text that every database and JSON reader takes."""
    try:
        return clean_text(str(value))
    except BaseException as problem:  # `__str__` is the user's, and may even exit
        return f"(its text cannot be read: {name_of(problem)})"


def name_of(problem: BaseException) -> str:
    """The qualified name of an exception's type; of duly's own, the name they are imported by."""
    kind = type(problem)
    try:
        module, name = clean_text(kind.__module__), clean_text(kind.__qualname__)
    except Exception:  # a class can put anything there
        return clean_text(type.__dict__["__name__"].__get__(kind))
    if module.partition(".")[0] == "duly" and module not in PUBLIC_MODULES:
        return f"duly.{name}"
    return name if module == "builtins" else f"{module}.{name}"


def failure_reason(error: bytes | None) -> str:
    """Return a recorded failure as one line; its secrets were left out when it was recorded."""
    failure = decode_failure(error)
    if failure is None:
        return "no reason was given"
    told = shorten((failure.message.splitlines() or [""])[0], LOG_LENGTH).rstrip(".")
    if not told or failure.type not in OF_MESSAGES:
        told = f"{failure.type}: {told}" if told else failure.type
    return (
        told if failure.cause is None else f"{told} (cause: {shorten(failure.cause, LOG_LENGTH)})"
    )
