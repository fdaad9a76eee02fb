"""The journal of a worker, beside the database: which runs came to their end, and how.

One line is one write, so a process that is killed at any instruction has written it or has not.
The files outlive the processes; the ledger compares them with the rows.
"""

from __future__ import annotations

import logging
import os
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class JournalNote(StrEnum):
    """What a journal records of a run."""

    THROUGH = "T"  # the handler returned: next the job is settled under its lease
    LOST = "L"  # the worker learned that it had lost the lease
    AGAIN = "A"  # the run failed, and the job was given back


class JournalEntry(NamedTuple):
    """One line of a journal."""

    note: str
    process: int
    job: str
    epoch: int


# Runs whose lease a process remembers: duly logs the outcome of a run soon after its end.
REMEMBERED = 5000
# How duly's log lines about a run that has ended begin.
LOG_LINES = {
    "the lease on job %s ": JournalNote.LOST,
    "job %s (%s) failed ": JournalNote.AGAIN,
}


class Journal(logging.Handler):
    """Writes the journal of one process; it learns of lost leases and failures from duly's log."""

    def __init__(self, path: Path) -> None:
        super().__init__(logging.WARNING)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._process = os.getpid()
        self._running: dict[str, int] = {}
        # Jobs that were lost before their handlers had begun.
        self._lost: set[str] = set()

    def record_start(self, job: str, epoch: int) -> None:
        """Record that a handler begins; it may have waited too long for its transaction."""
        self._running[job] = epoch
        if len(self._running) > REMEMBERED:
            del self._running[next(iter(self._running))]
        if job in self._lost:
            self._lost.discard(job)
            self._write(JournalNote.LOST, job, epoch)

    def record_end(self, job: str, epoch: int) -> None:
        """Record that a handler returned."""
        self._write(JournalNote.THROUGH, job, epoch)

    def emit(self, record: logging.LogRecord) -> None:
        """Record what duly logs about a run."""
        for beginning, note in LOG_LINES.items():
            if str(record.msg).startswith(beginning) and isinstance(record.args, tuple):
                job = str(record.args[0])
                if job in self._running:
                    self._write(note, job, self._running[job])
                elif note is JournalNote.LOST:
                    self._lost.add(job)

    def _write(self, note: JournalNote, job: str, epoch: int) -> None:
        os.write(self._file, f"{note} {self._process} {job} {epoch}\n".encode())


def read_journal(path: Path) -> Iterator[JournalEntry]:
    """Read every line of every process that used the file."""
    with path.open() as lines:
        for line in lines:
            note, process, job, epoch = line.split()
            yield JournalEntry(note, int(process), job, int(epoch))
