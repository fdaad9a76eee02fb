"""What was refused, written down: a handler may catch the error, and then nothing else tells of it.

A call that was refused has not been made, so that it cannot be compared either. Whoever catches its
error and goes on would be called safe for work that the proof has kept it from doing.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from duly.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REFUSED = "refused.jsonl"


class Refusals:
    """The refusals of every process of a case, those that it forks included."""

    def __init__(self) -> None:
        self._path: Path | None = None

    def begin(self, folder: Path) -> None:
        """From here on, write down."""
        self._path = folder / REFUSED

    def add(self, told: str) -> None:
        """Write one down, in one write: the process may be killed next."""
        if self._path is not None:
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.write(file, json.dumps(told).encode() + b"\n")
            os.close(file)

    @contextmanager
    def record_refusals(self) -> Iterator[None]:
        """Write down what is refused inside the block."""
        try:
            yield
        except UsageError as problem:
            self.add(str(problem))
            raise


def refuse_refused(folder: Path) -> None:
    """Refuse a case in which anything was refused, even if its error was swallowed."""
    path = folder / REFUSED
    if path.exists():
        raise UsageError(json.loads(path.read_text().splitlines()[0]))
