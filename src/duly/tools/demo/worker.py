"""One worker: take a delivery, handle its event once, answer. Safe to kill at any instruction.

Short work is done in one transaction with the claim. Long work is done under a lease, with no
transaction open; only its last writes and the mark share one.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import duly
from duly.tools.demo.events import SCOPE
from duly.tools.demo.line import Answer, Outcome, incoming, reply
from duly.tools.demo.place import address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from duly.tools.demo.events import Event
    from duly.tools.demo.line import Delivery

# Five times the work: hardly anybody but a stopped worker loses it.
LEASE = timedelta(milliseconds=500)
WORK = timedelta(milliseconds=100)
# An answer's way through a network: time to be killed with the work done and nobody told.
ANSWERING = timedelta(milliseconds=1)
# Far longer than anybody keeps the write lock, even a worker that is stopped while it has it.
PATIENCE = timedelta(seconds=30)


class Handler:
    """The handler of this demonstration, on a connection of its own."""

    def __init__(self, database: Path) -> None:
        self.connection = sqlite3.connect(
            database, isolation_level=None, timeout=PATIENCE.total_seconds()
        )
        self.store = duly.store(address(database))

    def handle(self, event: Event, working: Callable[[], None]) -> Outcome:
        """Handle a delivery of the event: `Held` and `LeaseLost` are for the caller."""
        return self.long_work(event, working) if event.long else self.short_work(event)

    def short_work(self, event: Event) -> Outcome:
        """Claim and work in one transaction: they are committed together or not at all."""
        connection = self.connection
        with transaction(connection), duly.once(connection, SCOPE, event.id) as turn:
            if turn.first:
                pay(connection, event, epoch=1)
        return Outcome.FIRST if turn.first else Outcome.DUPLICATE

    def long_work(self, event: Event, working: Callable[[], None]) -> Outcome:
        """Claim, work, mark: whoever lost the lease meanwhile is refused at the mark."""
        connection = self.connection
        with duly.once(self.store, SCOPE, event.id, lease=LEASE) as turn:
            if turn.duplicate:
                return Outcome.DUPLICATE
            working()
            time.sleep(WORK.total_seconds())
            with transaction(connection):
                pay(connection, event, epoch=turn.epoch)
                turn.mark(tx=connection)
        return Outcome.FIRST

    def close(self) -> None:
        """Close both connections."""
        self.connection.close()
        self.store.close()


def pay(connection: sqlite3.Connection, event: Event, *, epoch: int) -> None:
    """The effect. Nothing in these tables would stop a second one."""
    connection.execute("INSERT INTO effects VALUES (?, ?, ?)", (event.id, event.amount, epoch))
    connection.execute("UPDATE accounts SET balance = balance + ?", (event.amount,))


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """BEGIN IMMEDIATE … COMMIT, or ROLLBACK if the body raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk has rolled back already
            connection.execute("ROLLBACK")
        raise


def answer_to(handler: Handler, delivery: Delivery, answers: int) -> Answer:
    """Handle one delivery, and turn duly's two refusals into answers."""
    number, process = delivery.number, os.getpid()

    def working() -> None:
        reply(answers, Answer(number, process, Outcome.WORKING))

    try:
        return Answer(number, process, handler.handle(delivery.event, working))
    except duly.Held as held:
        seconds = held.retry_after.total_seconds()
        return Answer(number, process, Outcome.LATER, retry_after=seconds)
    except duly.LeaseLost:
        return Answer(number, process, Outcome.REFUSED)


def serve(database: Path, deliveries: int, answers: int) -> None:
    """Work until the sender hangs up, or is gone."""
    handler = Handler(database)
    with suppress(BrokenPipeError):
        for delivery in incoming(deliveries):
            answer = answer_to(handler, delivery, answers)
            time.sleep(ANSWERING.total_seconds())
            reply(answers, answer)
    handler.close()
