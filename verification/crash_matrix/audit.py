"""The invariants of the design, checked after everything has come to rest.

Each violation is a sentence that begins with the number of its invariant.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg

from duly.core.states import JOB_MOVES, MESSAGE_MOVES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from verification.crash_matrix.flows import Flow
    from verification.crash_matrix.journal import Journal
    from verification.crash_matrix.places import Place

ALLOWED: dict[str, set[tuple[Any, Any]]] = {
    "job": {(move.before, move.after) for move in JOB_MOVES},
    "message": {(move.before, move.after) for move in MESSAGE_MOVES},
}
FORBIDDEN = 403
MOST_RESCUES = {"duly_jobs": 5, "duly_outbox": 20}
EFFECTS = "SELECT what FROM effects"
TOTAL = "SELECT coalesce(sum(total), 0) FROM totals"
EVENTS = "SELECT event_id, flags FROM duly_events"
WORKED = "SELECT event_id FROM duly_events WHERE flags NOT LIKE '%conflict%'"
LEFT = "SELECT count(*) FROM {table} WHERE state <> 'dead'"
DEAD_JOBS = "SELECT name FROM duly_jobs WHERE state = 'dead'"
DEAD_MESSAGES = "SELECT destination, id FROM duly_outbox WHERE state = 'dead'"
HISTORY = "SELECT job, outcome FROM duly_history"
BOOKED = "SELECT event_id, name FROM duly_history AS done JOIN duly_events ON id = done.event"
MOVES = "SELECT kind, id, before, after, old, new, token FROM moves"
KNOWN = "SELECT key FROM duly_effects WHERE state = 'done'"
SENT = "SELECT job FROM duly_history WHERE outcome = 'sent'"
# Those without a lease guard a body; whoever gives a claim back leaves one that is free.
HELD = (
    "SELECT count(*) FROM duly_claims WHERE state = 'held'"
    " AND lease_until IS NOT NULL AND token IS NOT NULL"
)
OPEN = (
    "SELECT pid, state, query FROM pg_stat_activity WHERE datname = current_database()"
    " AND state LIKE 'idle in transaction%'"
)
LOCKS = (
    "SELECT locktype, mode FROM pg_locks WHERE pid <> pg_backend_pid()"
    " AND locktype IN ('advisory', 'tuple') AND database ="
    " (SELECT oid FROM pg_database WHERE datname = current_database())"
)


class Audit:
    """Looks at one database and its journal."""

    def __init__(self, flow: Flow, place: Place, journal: Journal) -> None:
        self._flow, self._place, self._journal = flow, place, journal

    def violations(self) -> list[str]:
        """What is not as it must be."""
        try:
            return [
                *self._replies(), *self._forgeries(), *self._effects(), *self._events(),
                *self._ends(), *self._moves(), *self._limits(), *self._calls(), *self._messages(),
                *self._leaks(), *self._odd(),
            ]  # fmt: skip
        except (sqlite3.Error, psycopg.Error) as problem:
            return [f"the database cannot be looked at: {problem}"]

    def _counted(self, text: str) -> Counter[Any]:
        return Counter(row[0] if len(row) == 1 else row for row in self._place.rows(text))

    def _replies(self) -> Iterator[str]:
        there = set(self._counted("SELECT event_id FROM duly_events"))
        there.update(self._flow.extra.get("over", ()))  # their time was over, and they may go
        forged = self._flow.extra.get("forged", ())
        replies = self._journal.of("reply")
        for reply in replies:
            if reply["id"] in forged:
                # Refused for good, or not heard at all: never taken, and its rows are from nowhere.
                if reply["status"] != FORBIDDEN:
                    yield f"I13: a forged {reply['id']} was answered {reply['status']}"
                continue
            if 200 <= reply["status"] < 300 and reply["id"] not in there:
                yield f"I1: {reply['id']} was told {reply['said']}, and is not there"
            if 400 <= reply["status"] < 500:
                yield f"I5: {reply['id']} was refused for good with {reply['status']}"
        last = {(reply["source"], reply["id"], reply["body"]): reply for reply in replies}
        for reply in last.values():
            if reply["id"] not in forged and reply["status"] >= 500:
                yield f"I5: {reply['id']} was answered {reply['status']} to the end"

    def _effects(self) -> Iterator[str]:
        found = self._counted(EFFECTS)
        for what, count in found.items():
            slot = self._flow.extra.get("slots") and what.startswith("sweep ")
            if count > 1:
                yield f"I3: the effect {what!r} is there {count} times"
            if what not in self._flow.effects and not slot:
                yield f"I4: the effect {what!r} comes from nowhere"
        for what in self._flow.effects:
            if what not in found:
                yield f"I2: the effect {what!r} is lost"
        if self._flow.extra.get("slots"):
            yield from self._slots(sorted(found))
        [(total,)] = self._place.rows(TOTAL)
        if total != found.total():
            yield f"I3: the counter says {total}, the rows {found.total()}"

    def _slots(self, found: list[str]) -> Iterator[str]:
        """Each hour from the first one on, without a gap."""
        [told] = self._journal.of("slot")
        due = datetime.fromisoformat(told["first"])
        for what in found or ["nothing"]:
            if what != f"sweep {due.isoformat()}":
                yield f"I2: the slot of {due} took no effect; the next that did is {what!r}"
                return
            due += timedelta(hours=1)

    def _forgeries(self) -> Iterator[str]:
        """What nobody genuine has sent may be in no table."""
        for id in self._flow.extra.get("forged", ()):
            if self._counted("SELECT event_id FROM duly_events")[id]:
                yield f"I13: the forged {id} is in the inbox"
            if self._counted("SELECT key_text FROM duly_claims")[id]:
                yield f"I13: the forged {id} has taken a claim"

    def _events(self) -> Iterator[str]:
        over = self._flow.extra.get("over", ())
        found = Counter(id for id, _ in self._place.rows(EVENTS) if id not in over)
        if found != Counter(self._flow.events):
            yield f"I4, I5: events {dict(found)} instead of {dict(Counter(self._flow.events))}"
        for (event, name), count in self._counted(BOOKED).items():
            if count > 1:
                yield f"I5: event {event} had {count} jobs of {name}"
        if self._flow.extra.get("conflict"):
            flagged = [id for id, flags in self._place.rows(EVENTS) if "conflict" in flags]
            if flagged != ["id_1"]:
                yield f"I14: conflicts on record are {flagged}, not id_1"

    def _ends(self) -> Iterator[str]:
        for table in ("duly_jobs", "duly_outbox"):
            [(left,)] = self._place.rows(LEFT.format(table=table))
            if left:
                yield f"I6: {left} rows of {table} never ended"
        gone = {line["id"]: line["path"] for line in self._journal.of("message")}
        dead = [name for (name,) in self._place.rows(DEAD_JOBS)]
        dead += [gone.get(str(id), str(id)) for _, id in self._place.rows(DEAD_MESSAGES)]
        if Counter(dead) != Counter(self._flow.dead):
            yield f"I6: dead are {sorted(dead)} instead of {sorted(self._flow.dead)}"
        for job, count in Counter(str(job) for job, _ in self._place.rows(HISTORY)).items():
            if count > 1:
                yield f"I7: {job} ended {count} times"

    def _moves(self) -> Iterator[str]:
        if self._flow.empty:  # nobody had laid the triggers
            return
        tokens: dict[bytes, tuple[str, int]] = {}
        for kind, id, before, after, old, new, token in self._place.rows(MOVES):
            if before != after and (before, after) not in ALLOWED[kind]:
                yield f"I7: {kind} {id} went from {before} to {after}"
            if new < old or (after == "leased" and before != "leased" and new == old):
                yield f"I10: the epoch of {kind} {id} went from {old} to {new}"
            if after != "leased" or before == "leased":
                continue
            grant = (id, new)
            if tokens.setdefault(bytes(token), grant) != grant:
                yield f"I10: two grants share a token: {grant} and {tokens[bytes(token)]}"

    def _limits(self) -> Iterator[str]:
        for table, most in MOST_RESCUES.items():
            text = f"SELECT id, attempts, max_attempts, rescues FROM {table}"
            for id, attempts, allowed, rescues in self._place.rows(text):
                if attempts > allowed or rescues > most:
                    yield f"I9: {table} {id} had {attempts} attempts and {rescues} rescues"

    def _calls(self) -> Iterator[str]:
        keys: dict[str, set[str]] = defaultdict(set)
        for call in self._journal.of("call"):
            keys[call["name"]].add(call["key"])
        for name in self._flow.calls:
            if len(keys.get(name, ())) != 1:
                yield f"I2: the call {name!r} was made under {len(keys.get(name, ()))} keys"
        for name in set(keys) - set(self._flow.calls):
            yield f"I4: the call {name!r} comes from nowhere"

    def _messages(self) -> Iterator[str]:
        ids: dict[str, set[str]] = defaultdict(set)
        bodies: dict[str, set[str]] = defaultdict(set)
        taken = {*self._flow.dead, *self._flow.extra.get("refused", ())}
        for message in self._journal.of("message"):
            ids[message["path"]].add(message["id"])
            bodies[message["path"]].add(message["body"])
            if 200 <= message["status"] < 300:
                taken.add(message["path"])
        for path in self._flow.messages:
            if path not in taken:
                yield f"I11: the message to {path} was never taken by its receiver"
            if len(bodies[path]) > 1:
                yield f"I11: the message to {path} said something else the next time"
            if len(ids.get(path, ())) != 1:
                yield f"I11: the message to {path} arrived under {len(ids.get(path, ()))} ids"
        for path in set(ids) - set(self._flow.messages):
            yield f"I11: the message to {path} was never asked for"

    def _leaks(self) -> Iterator[str]:
        for line in self._journal.of("leak"):
            yield f"I12: when a process was through, {line['what']}"
        [(held,)] = self._place.rows(HELD)
        if held:
            yield f"I12: {held} claims are still held"
        if self._place.url.startswith("sqlite"):
            try:
                self._place.rows("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as problem:
                yield f"I12: SQLite's write lock is still held: {problem}"
            return
        for pid, state, query in self._place.rows(OPEN):
            yield f"I12: process {pid} of the server is {state} after {query[:60]!r}"
        for kind, mode in self._place.rows(LOCKS):
            yield f"I12: a lock is left: {kind} {mode}"

    def _odd(self) -> Iterator[str]:
        for line in self._journal.of("odd"):
            yield f"an error that is none of duly's got out: {line['problem']}"


class Settled:
    """What was over before the recovery began: nobody may do it again."""

    def __init__(self, place: Place, journal: Journal) -> None:
        self._journal = journal
        self._calls, self._messages = len(journal.of("call")), len(journal.of("message"))
        try:
            self._known = {key for (key,) in place.rows(KNOWN)}
            self._sent = {str(id) for (id,) in place.rows(SENT)}
        except (sqlite3.Error, psycopg.Error):  # there are no tables yet
            self._known, self._sent = set(), set()

    def repeated(self) -> list[str]:
        """What was done again although its outcome was known."""
        calls = self._journal.of("call")[self._calls :]
        messages = self._journal.of("message")[self._messages :]
        return [
            *(f"I2: {line['name']} was called again, its outcome was known"
              for line in calls if line["key"] in self._known),
            *(f"I11: {line['path']} was sent again, it was marked as sent"
              for line in messages if line["id"] in self._sent),
        ]  # fmt: skip


def overdone(journal: Journal) -> list[str]:
    """What was done more often than needed, where nothing was in the way."""
    calls = Counter(line["name"] for line in journal.of("call"))
    messages = Counter(line["path"] for line in journal.of("message"))
    # Such receivers take a message the second time.
    return [f"{name} was called {count} times" for name, count in calls.items() if count > 1] + [
        f"{path} was sent {count} times"
        for path, count in messages.items()
        if count > (2 if path.startswith(("/busy", "/refused")) else 1)
    ]
