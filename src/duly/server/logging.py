"""The log of a process: readable on a terminal, plain in a pipe, or one JSON object a line.

The access log is a part of it: one line for each request, with the event id and never a body. No
line shows a password of an address or a secret of a source, whoever wrote it.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.app.output import printable, without_passwords

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.app.duly import Duly

ACCESS = "duly.access"
POOL = "psycopg.pool"
# Seconds in which a connection pool says the same once.
POOL_PAUSE = 60.0
HIDDEN = "***"
# A very short secret would be found in any word.
SHORTEST_HIDDEN = 6
GREEN, YELLOW, RED, GREY, PLAIN = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[90m", "\x1b[0m"
COLOURS = {"WARNING": YELLOW, "ERROR": RED, "CRITICAL": RED, "DEBUG": GREY}


class AccessRecord(NamedTuple):
    """What the edge says of a request that was answered, in the order in which it says it."""

    method: str
    path: str
    status: int
    said: str
    event: str
    milliseconds: float


def access_record_of(record: logging.LogRecord) -> AccessRecord | None:
    """The request that a line of the access log is about."""
    told = record.args
    if (
        record.name != ACCESS
        or not isinstance(told, tuple)
        or len(told) != len(AccessRecord._fields)
    ):
        return None
    return AccessRecord(*told)  # type: ignore[arg-type]  # objects, as logging declares them


class LogFormatter(logging.Formatter):
    """One record as text in which no secret stands."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets: tuple[str, ...] = ()

    def format(self, record: logging.LogRecord) -> str:
        """The whole entry."""
        text = without_passwords(self.entry(record))
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        return text

    def entry(self, record: logging.LogRecord) -> str:
        """The entry as it would be if there were no secrets."""
        return f"{self.head(record)}{self.with_traceback(record)}"

    def head(self, record: logging.LogRecord) -> str:
        """What stands before the message."""
        return f"{utc_timestamp(record)} {record.levelname} {record.name} "

    def with_traceback(self, record: logging.LogRecord) -> str:
        """The message, and below it where an error came from; others may have written in both."""
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        told = f"{record.getMessage()}\n{trace}" if trace else record.getMessage()
        return printable(told)


class TerminalFormatter(LogFormatter):
    """For a person who watches: the time of day, and what matters in colour."""

    def entry(self, record: logging.LogRecord) -> str:
        """Columns for requests, a coloured level for anything else."""
        request = access_record_of(record)
        clock = f"{GREY}{datetime.fromtimestamp(record.created):%H:%M:%S}{PLAIN}"
        if request is None:
            colour = COLOURS.get(record.levelname, GREEN)
            level = f"{colour}{record.levelname.lower()}{PLAIN}"
            return f"{clock} {level} {self.with_traceback(record)}"
        colour = GREEN if request.status < 400 else YELLOW if request.status < 500 else RED
        return (
            f"{clock} {colour}{request.status} {request.said:<10}{PLAIN} {request.method} "
            f"{request.path} {request.event} {GREY}{request.milliseconds:.1f} ms{PLAIN}"
        )


class JsonFormatter(LogFormatter):
    """For programs: one JSON object a line, its members named."""

    def format(self, record: logging.LogRecord) -> str:
        """The object; texts are made safe one by one, so that it stays an object."""
        return json.dumps(self.hide_secrets(self.members(record)), default=str)

    def members(self, record: logging.LogRecord) -> dict[str, Any]:
        """What is known of it."""
        told: dict[str, Any] = {
            "time": utc_timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
        }
        request = access_record_of(record)
        if request is not None:
            return {
                **told,
                **request._asdict(),
                "said": None if request.said == "-" else request.said,
                "event": None if request.event == "-" else request.event,
                "milliseconds": round(request.milliseconds, 1),
            }
        told |= {"message": record.getMessage(), **getattr(record, "members", {})}
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return told

    def hide_secrets(self, value: Any) -> Any:
        """A value in which no secret stands."""
        if isinstance(value, dict):
            return {name: self.hide_secrets(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self.hide_secrets(one) for one in value]
        if not isinstance(value, str):
            return value
        text = without_passwords(value)
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        return text


class PoolLogThrottle(logging.Filter):
    """Lets each warning of a connection pool through once a minute, with how often it came.

    A pool warns of every connection that it loses and of every attempt to replace it: in an outage
    that hides the lines that say what the outage means.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last_logged: dict[object, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged; one that is says how many were not."""
        if record.levelno < logging.WARNING:
            return True
        first = record.args[0] if isinstance(record.args, tuple) and record.args else None
        # The name of the pool is text. Some warnings name a connection instead, a new one each.
        subject = (record.msg, first if isinstance(first, str) else None)
        now = time.monotonic()
        said, hidden = self._last_logged.get(subject, (None, 0))
        if said is not None and now - said < POOL_PAUSE:
            self._last_logged[subject] = (said, hidden + 1)
            return False
        self._last_logged[subject] = (now, 0)
        if hidden:
            record.msg, record.args = f"{record.getMessage()} (and {hidden} times before)", ()
        return True


def utc_timestamp(record: logging.LogRecord) -> str:
    """The time of a record, for machines in any time zone."""
    told = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    return told.replace("+00:00", "Z")


def configure_logging(*, level: str, as_json: bool, access: bool = True) -> LogFormatter:
    """Send everything that is logged to stderr, before the application is imported."""
    form = (
        JsonFormatter()
        if as_json
        else TerminalFormatter()
        if sys.stderr.isatty()
        else LogFormatter()
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(form)
    number = logging.getLevelNamesMapping()[level.upper()]
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    # What the server beneath says in passing is said better by the lines of this one.
    beneath = number if number < logging.INFO else max(number, logging.WARNING)
    logging.getLogger("uvicorn").setLevel(beneath)
    pool = logging.getLogger(POOL)
    for known in [one for one in pool.filters if isinstance(one, PoolLogThrottle)]:
        pool.removeFilter(known)
    pool.addFilter(PoolLogThrottle())
    if not access:
        logging.getLogger(ACCESS).setLevel(logging.CRITICAL)
    return form


def secrets_of(app: Duly) -> Iterable[str]:
    """The secrets of an application's sources and signers, as they may turn up in a text."""
    texts = [text for route in app.site.routes.values() for text in route.source.texts_to_hide()]
    for signer in app.registry.outgoing.signers.values():
        texts += signer.texts_to_hide()
    return [text for text in texts if len(text) >= SHORTEST_HIDDEN]
