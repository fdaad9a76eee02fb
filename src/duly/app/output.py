"""What a command says: lines for people, one JSON document for programs, progress on stderr."""

from __future__ import annotations

import json
import re
import sys
import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from duly.core.json_bytes import Json

# Up to the last @, because a password may hold one that should have been escaped.
USER_AND_PASSWORD = re.compile(r"://([^\s:/@]*):\S*@")
PASSWORD_SETTING = re.compile(r"(password=)[^&\s'\"]*", re.IGNORECASE)

# Seconds between two lines of progress. A terminal may be rewritten often; a log keeps every line.
TERMINAL_PAUSE, LOG_PAUSE = 0.1, 1.0
REWRITE_LINE = "\r\x1b[K"


def without_passwords(text: str) -> str:
    """A text in which every database address has lost its password."""
    if "=" not in text and "://" not in text:  # as in most lines of a log
        return text
    return PASSWORD_SETTING.sub(r"\1***", USER_AND_PASSWORD.sub(r"://\1:***@", text))


def one_line(problem: Exception) -> str:
    """An error as one line that is safe to show."""
    return without_passwords(" ".join(str(problem).split()) or type(problem).__name__)


def on_one_line(text: str) -> str:
    """Text from outside on one line, safe on a terminal."""
    return printable(" ".join(text.split()))


def printable(text: str) -> str:
    """The same with its lines: no control character may reach a terminal."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in "\n\t" else "\N{REPLACEMENT CHARACTER}" for one in text
    )


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Every command that answers takes ``--json``."""
    parser.add_argument("--json", action="store_true", help="answer with one JSON document")


def print_answer(arguments: argparse.Namespace, text: str, document: Json) -> None:
    """Print the answer in the form that was asked for."""
    print(json.dumps(document) if arguments.json else text)


class Progress:
    """One line rewritten in place on a terminal, a plain line now and then anywhere else.

    It goes to stderr: the answer on stdout stays clean for the program that reads it.
    """

    def __init__(
        self, stream: TextIO | None = None, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._seconds = seconds
        self._terminal = self._stream.isatty()
        self._pause = TERMINAL_PAUSE if self._terminal else LOG_PAUSE
        self._last: float | None = None

    def show(self, text: str) -> None:
        """Say how far it is, unless that was said a moment ago."""
        now = self._seconds()
        if self._last is not None and now - self._last < self._pause:
            return
        self._last = now
        self._stream.write(f"{REWRITE_LINE}{text}" if self._terminal else f"{text}\n")
        self._stream.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._terminal and self._last is not None:
            self._stream.write(REWRITE_LINE)
            self._stream.flush()
