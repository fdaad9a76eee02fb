"""The log of a process: readable on a terminal, plain in a pipe, or one JSON object a line.

The access log is a part of it: one line for each request, with the event id and never a body. No
line shows the password of a URL or the secret of a source, whichever library wrote it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from duly.app.loading import load_app
from duly.app.output import printable, without_passwords

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.app.duly import Duly

ACCESS = "duly.access"
POOL = "psycopg.pool"
ROOT = logging.getLogger()
ACCESS_PATH = (logging.getLogger(ACCESS), logging.getLogger("duly"))
# Seconds in which a connection pool says the same once.
POOL_PAUSE = 60.0
HIDDEN = "***"
# A very short secret would be found in any word.
SHORTEST_HIDDEN = 6
GREEN, YELLOW, RED, GREY, PLAIN = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[90m", "\x1b[0m"
COLOURS = {"WARNING": YELLOW, "ERROR": RED, "CRITICAL": RED, "DEBUG": GREY}


class AccessRecord(NamedTuple):
    """What the receiver logs of a request that was answered, in the order of its arguments."""

    method: str
    path: str
    status: int
    said: str
    event: str
    milliseconds: float


def access_record_of(record: logging.LogRecord) -> AccessRecord | None:
    """Return the request of a record of the access log; None for any other record."""
    values = record.args
    if record.name != ACCESS or not isinstance(values, tuple):
        return None
    if len(values) != len(AccessRecord._fields):
        return None
    return AccessRecord(*values)  # type: ignore[arg-type]  # objects, as logging declares them


class LogFormatter(logging.Formatter):
    """Formats a record as text, with every known secret hidden."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets: tuple[str, ...] = ()

    def format(self, record: logging.LogRecord) -> str:
        """Return the whole entry, with every known secret hidden."""
        return self.hide(self.entry(record))

    def hide(self, text: str) -> str:
        """Replace passwords and known secrets."""
        text = without_passwords(text)
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        return text

    def entry(self, record: logging.LogRecord) -> str:
        """Return the entry with its secrets."""
        return f"{self.head(record)}{self.with_traceback(record)}"

    def head(self, record: logging.LogRecord) -> str:
        """Return what stands before the message."""
        return f"{utc_timestamp(record)} {record.levelname} {record.name} "

    def with_traceback(self, record: logging.LogRecord) -> str:
        """Return the message and the traceback below it, safe on a terminal."""
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        message = record.getMessage()
        return printable(f"{message}\n{trace}" if trace else message)


class TerminalFormatter(LogFormatter):
    """Formats for a terminal: the time of day, and the level or status in colour."""

    def entry(self, record: logging.LogRecord) -> str:
        """Return columns for a request, a coloured level for anything else."""
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
    """Formats for programs: one JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object; secrets are hidden text by text, so that it stays an object."""
        return json.dumps(self.hide_secrets(self.members(record)), default=str)

    def members(self, record: logging.LogRecord) -> dict[str, Any]:
        """Return the members of the object."""
        members: dict[str, Any] = {
            "time": utc_timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
        }
        request = access_record_of(record)
        if request is not None:
            return {
                **members,
                **request._asdict(),
                "said": None if request.said == "-" else request.said,
                "event": None if request.event == "-" else request.event,
                "milliseconds": round(request.milliseconds, 1),
            }
        members |= {"message": record.getMessage(), **getattr(record, "members", {})}
        if record.exc_info:
            members["traceback"] = self.formatException(record.exc_info)
        return members

    def hide_secrets(self, value: Any) -> Any:
        """Return a value with every known secret hidden."""
        if isinstance(value, dict):
            return {name: self.hide_secrets(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self.hide_secrets(one) for one in value]
        return self.hide(value) if isinstance(value, str) else value


class BatchingHandler(logging.StreamHandler[TextIO]):
    """Writes the access log of an event loop once in each of its turns, and all else at once.

    A batch of deliveries is answered in one turn; a write for each line would cost more than the
    line. Lines keep their order: any other record writes first the lines that wait.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._waiting: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or keep it until the event loop has done what is ready now."""
        if record.name != ACCESS or record.levelno > logging.INFO:
            self._write_waiting()
            super().emit(record)
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            super().emit(record)
            return
        try:
            if not self._waiting:
                loop.call_soon(self._write_waiting)
            self._waiting.append(self.format(record))
        except Exception:
            self.handleError(record)

    def log_access(self, request: AccessRecord) -> bool:
        """Write the line of a request without a record; return False where a record is needed.

        A record costs more than the rest of the line, and nothing but this handler may read it:
        neither another handler or filter, nor a format of another kind.
        """
        formatter = self.formatter
        if (
            type(formatter) is not LogFormatter
            or ROOT.handlers != [self]
            or not all(one.propagate and not (one.handlers or one.filters) for one in ACCESS_PATH)
            or self.filters
        ):
            return False
        now = time.time()
        line = (
            f"{utc_time(now)} INFO {ACCESS} {request.method} {request.path} {request.status} "
            f"{request.said} {request.event} {request.milliseconds:.1f}ms"
        )
        text = formatter.hide(printable(line))
        with self.lock or nullcontext():  # a thread that logs meanwhile takes the lines away
            if not self._waiting:
                asyncio.get_running_loop().call_soon(self._write_waiting)
            self._waiting.append(text)
        return True

    def flush(self) -> None:
        """Write what waits: also at the end of the process."""
        self._write_waiting()
        super().flush()

    def _write_waiting(self) -> None:
        with self.lock or nullcontext():
            lines, self._waiting = self._waiting, []
            if not lines:
                return
            try:
                self.stream.write("\n".join([*lines, ""]))
                super().flush()
            except Exception:  # as with any other line: the log must not stop the server
                self.handleError(
                    logging.makeLogRecord(
                        {"name": ACCESS, "msg": "%d lines", "args": (len(lines),)}
                    )
                )


class PoolLogThrottle(logging.Filter):
    """Passes each warning of a connection pool once a minute, with how often it came.

    A pool warns of every connection that it loses and of every attempt to replace it. In an outage
    that would hide the lines that say what the outage means.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last_logged: dict[object, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if the record is logged; it then says how many were not."""
        if record.levelno < logging.WARNING:
            return True
        first = record.args[0] if isinstance(record.args, tuple) and record.args else None
        # The name of the pool is text. Some warnings name a connection instead, a new one each.
        subject = (record.msg, first if isinstance(first, str) else None)
        now = time.monotonic()
        last, hidden = self._last_logged.get(subject, (None, 0))
        if last is not None and now - last < POOL_PAUSE:
            self._last_logged[subject] = (last, hidden + 1)
            return False
        self._last_logged[subject] = (now, 0)
        if hidden:
            record.msg, record.args = f"{record.getMessage()} (and {hidden} times before)", ()
        return True


def utc_timestamp(record: logging.LogRecord) -> str:
    """Return the time of a record in UTC."""
    return utc_time(record.created)


def utc_time(moment: float) -> str:
    """Return seconds since 1970 in UTC, to the millisecond."""
    seconds = int(moment)
    return f"{utc_second(seconds)}.{int((moment - seconds) * 1000):03}Z"


@lru_cache(maxsize=8)
def utc_second(seconds: int) -> str:
    """Return a whole second in UTC; a busy server logs thousands of lines in one."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def configure_logging(*, level: str, as_json: bool, access: bool = True) -> LogFormatter:
    """Send everything that is logged to stderr; called before the application is imported."""
    # Closed by the program that started this one: then nothing can be said.
    stream = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115  # open as long as the log
    kind = TerminalFormatter if stream.isatty() else LogFormatter
    formatter = JsonFormatter() if as_json else kind()
    handler = BatchingHandler(stream)
    handler.setFormatter(formatter)
    number = logging.getLevelNamesMapping()[level.upper()]
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    # duly's own lines say better what uvicorn logs at INFO.
    quiet = number if number < logging.INFO else max(number, logging.WARNING)
    logging.getLogger("uvicorn").setLevel(quiet)
    pool = logging.getLogger(POOL)
    for known in [one for one in pool.filters if isinstance(one, PoolLogThrottle)]:
        pool.removeFilter(known)
    pool.addFilter(PoolLogThrottle())
    if not access:
        logging.getLogger(ACCESS).setLevel(logging.CRITICAL)
    return formatter


def load_app_and_log(name: str, *, level: str, as_json: bool, access: bool = True) -> Duly:
    """Configure the log, load an application, and hide its secrets in the log."""
    formatter = configure_logging(level=level, as_json=as_json, access=access)
    app = load_app(name)
    formatter.secrets = tuple(secrets_of(app))
    return app


def secrets_of(app: Duly) -> Iterable[str]:
    """Return the secrets of an application's sources and signers, as they may appear in a text."""
    texts = [text for route in app.router.routes.values() for text in route.source.texts_to_hide()]
    for signer in app.registries.outbox.signers.values():
        texts += signer.texts_to_hide()
    return [text for text in texts if len(text) >= SHORTEST_HIDDEN]
