"""The evidence when everything has ended: rows, journals and receipts. The ledger judges it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duly.demo.journal import JournalNote, read_journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from duly.demo.databases import PostgresDatabase, SqliteDatabase

INBOX = "SELECT event_id, flags FROM {events}"
ENDED = (
    "SELECT event.event_id, job.name, job.job FROM {history} AS job JOIN {events} AS event"
    " ON event.id = job.event WHERE job.outcome = 'done'"
)
DEAD = (
    "SELECT event.event_id, job.name FROM {jobs} AS job JOIN {events} AS event"
    " ON event.id = job.event WHERE job.state = 'dead'"
)
EFFECTS = "SELECT event, amount, job, epoch FROM {effects}"
NEWEST = "SELECT job, max(epoch) FROM {leases} GROUP BY job"
RECEIPTS = "SELECT event, count(DISTINCT message), count(*) FROM receipts GROUP BY event"
# Numbers that are one row each.
FIGURES = {
    "balance": "SELECT sum(balance) FROM {accounts}",
    "counted": "SELECT sum(n) FROM {accounts}",
    "pending": "SELECT count(*) FROM {jobs} WHERE state <> 'dead'",
    "leased": "SELECT (SELECT count(*) FROM {jobs} WHERE state = 'leased')"
    " + (SELECT count(*) FROM {outbox} WHERE state = 'leased')",
    "unsent": "SELECT count(*) FROM {outbox}",
    "sent": "SELECT count(*) FROM {history} WHERE outcome = 'sent'",
    "sent_messages": "SELECT count(DISTINCT job) FROM {history} WHERE outcome = 'sent'",
    # A dead letter comes back when it is replayed, and in no other way.
    "breaches": "SELECT count(*) FROM {breaches} WHERE NOT (was = 'dead' AND became = 'ready')",
    "came_back": "SELECT count(*) FROM {breaches} WHERE was = 'dead' AND became = 'ready'",
    "tokens": "SELECT count(*) - count(DISTINCT token) FROM {leases}",
    "leases": "SELECT count(*) FROM {leases}",
}


class Tally:
    """Counts how often each event was seen, in one byte each."""

    def __init__(self) -> None:
        self.counts = bytearray()
        self.total = 0
        self.strange: list[str] = []
        """Ids that no event has."""

    def count_event(self, event: str, times: int = 1) -> None:
        """Count an event."""
        self.total += times
        _, _, number = event.partition("evt_")
        if not number.isdecimal() or int(number) > 10**9:
            self.strange.append(event)
            return
        at = int(number)
        if at >= len(self.counts):
            self.counts.extend(bytes(at + 4096 - len(self.counts)))
        self.counts[at] = min(self.counts[at] + times, 255)

    def count_of(self, number: int) -> int:
        """Return how often an event was seen."""
        return self.counts[number] if number < len(self.counts) else 0


@dataclass(slots=True)
class LateRuns:
    """What became of runs that ended after their lease was lost."""

    refused: int = 0
    accepted: list[str] = field(default_factory=list)
    """Those that were not refused, in words."""
    cut_off: int = 0
    """Killed, and it is unknown whether they had tried to settle before."""
    given_back: int = 0
    """Lost their connection, and gave the job back themselves."""

    @property
    def answered_count(self) -> int:
        """Return how many lived to get an answer."""
        return self.refused + len(self.accepted)


@dataclass(slots=True)
class Evidence:
    """Everything that the ledger compares."""

    figures: dict[str, int] = field(default_factory=dict)
    inbox: Tally = field(default_factory=Tally)
    conflicts: int = 0
    done: Tally = field(default_factory=Tally)
    wrapped: Tally = field(default_factory=Tally)
    seen_through: Tally = field(default_factory=Tally)
    """Those of them whose end is also in a worker's journal."""
    dead: Tally = field(default_factory=Tally)
    effects: Tally = field(default_factory=Tally)
    amounts: dict[int, int] = field(default_factory=dict)
    """Amounts of effects that are not what their events say; by number."""
    stale_effects: list[str] = field(default_factory=list)
    """Effects of a lease that was not the newest of its job."""
    messages: Tally = field(default_factory=Tally)
    receipts: int = 0
    late: LateRuns = field(default_factory=LateRuns)
    leftovers: int = 0
    replayed: int = 0
    """Dead letters that the operator replayed."""


def gather_evidence(
    database: SqliteDatabase | PostgresDatabase,
    folder: Path,
    killed: set[int],
    amount: Callable[[int], int],
) -> Evidence:
    """Read everything. ``amount`` returns what an event's effect must be, by its number."""
    found = Evidence()
    for name, statement in FIGURES.items():
        [(figure,)] = database.query(statement)
        found.figures[name] = int(figure or 0)
    read_inbox(found, database.rows(INBOX))
    wrapped = read_ended(found, database.rows(ENDED))
    for event, _ in database.rows(DEAD):
        found.dead.count_event(event)
    newest = {str(job): int(epoch) for job, epoch in database.rows(NEWEST)}
    kept = read_effects(found, database.rows(EFFECTS), newest, amount)
    journals = sorted(folder.glob("worker-*.journal"))
    found.late = read_journals(journals, newest, kept, killed)
    read_wrapped(found, wrapped, journals)
    read_receipts(found, folder / "downstream.db")
    return found


def read_ended(found: Evidence, rows: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """Read what the history says is done; return the events of jobs that leave no other row."""
    wrapped: dict[str, str] = {}
    for event, handler, job in rows:
        if handler == "wrap":
            found.wrapped.count_event(event)
            wrapped[str(job)] = event
        else:
            found.done.count_event(event)
    return wrapped


def read_wrapped(found: Evidence, wrapped: dict[str, str], journals: list[Path]) -> None:
    """Count the jobs without a row of their own whose end is in a worker's journal."""
    through = {
        line.job
        for path in journals
        for line in read_journal(path)
        if line.note == JournalNote.THROUGH and line.job in wrapped
    }
    for job in through:
        found.seen_through.count_event(wrapped[job])


def read_inbox(found: Evidence, rows: Iterable[tuple[str, str]]) -> None:
    """Read the events, and count conflicts apart from them."""
    for event, flags in rows:
        if flags.startswith("conflict"):
            found.conflicts += 1
        elif flags:
            found.inbox.strange.append(f"{event} ({flags})")
        else:
            found.inbox.count_event(event)


def read_effects(
    found: Evidence,
    rows: Iterable[tuple[str, int, str, int]],
    newest: dict[str, int],
    amount: Callable[[int], int],
) -> dict[str, int]:
    """Read the effects; return the epoch of those whose jobs were leased again."""
    kept: dict[str, int] = {}
    for event, value, job, epoch in rows:
        found.effects.count_event(event)
        number = int(event[4:])
        if value != amount(number):
            found.amounts[number] = value
        if job in newest:
            kept[job] = min(epoch, kept.get(job, epoch))
        if epoch != newest.get(job, 1):
            found.stale_effects.append(event)
    return kept


def read_journals(
    paths: list[Path], newest: dict[str, int], kept: dict[str, int], killed: set[int]
) -> LateRuns:
    """Classify runs that came to their end under a lease that was not the newest.

    Where the newest lease of a job came to its end and was not refused, the job was still there:
    no earlier lease had ended it. Where it was refused, an earlier lease had.
    """
    runs: dict[tuple[str, int], dict[int, str]] = {}
    for path in paths:
        for note, process, job, epoch in read_journal(path):
            if epoch <= newest.get(job, 0):
                notes = runs.setdefault((job, epoch), {})
                notes[process] = notes.get(process, "") + note
    late = LateRuns()
    for (job, epoch), notes in runs.items():
        if epoch < newest[job]:
            last = "".join(runs.get((job, newest[job]), {}).values())
            ended = kept[job] != epoch if job in kept else JournalNote.LOST not in last
            text = f"{job} (lease {epoch} of {newest[job]})"
            for process, noted in notes.items():
                if JournalNote.THROUGH in noted:
                    classify_late_run(late, noted, text, refused=ended, killed=process in killed)
    return late


def classify_late_run(
    late: LateRuns, noted: str, text: str, *, refused: bool, killed: bool
) -> None:
    """Count one run that came to its end after its lease was lost."""
    if not refused:
        late.accepted.append(text)
    elif JournalNote.AGAIN in noted:
        late.given_back += 1
    elif killed and JournalNote.LOST not in noted:
        late.cut_off += 1
    else:
        late.refused += 1


def read_receipts(found: Evidence, path: Path) -> None:
    """Read what arrived downstream: each event in one message, each message at least once."""
    with closing(sqlite3.connect(path)) as journal:
        for event, messages, receipts in journal.execute(RECEIPTS):
            found.messages.count_event(event, messages)
            found.receipts += receipts
