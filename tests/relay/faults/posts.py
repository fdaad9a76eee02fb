"""One outbox and its receiver: messages are staged, relays come and go, then both are compared.

What the receiver saw of a message must be the same every time, and never more often than the
database says that it may have been sent.
"""

from __future__ import annotations

import asyncio
import json
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

import duly
from duly.relay.settings import RelaySettings
from tests.support.processes.effects import Side
from tests.support.processes.leading import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from tests.outbox.receivers import Receiver

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SOURCE = duly.Source("standard-webhooks", SECRET)
NOW = {
    True: "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)",
    False: "clock_timestamp()",
}
# Nobody has seconds here to wait for the leases of a process that is known to be dead, or for a
# message that comes back after an error.
EXPIRE = "UPDATE duly_outbox SET lease_until = {now} WHERE state = 'leased'"
HURRY = "UPDATE duly_outbox SET run_at = {now} WHERE state = 'ready' AND run_at > {now}"
HISTORY = "SELECT job, outcome, attempts FROM duly_history"
LEFT = "SELECT count(*) FROM duly_outbox WHERE state <> 'dead'"
LEASED = "SELECT count(*) FROM duly_outbox WHERE state = 'leased'"
DEAD = "SELECT id FROM duly_outbox WHERE state = 'dead'"
ROWS = "SELECT * FROM duly_outbox ORDER BY id"
RESENT = "SELECT coalesce(sum(n), 0) FROM duly_counters WHERE name = 'message_resent'"


def sender(url: str, origin: str) -> duly.Duly:
    """An application that may send to one receiver, and signs what it sends."""
    app = duly.Duly(url, egress=duly.Egress(allow=[origin], deadline=timedelta(seconds=10)))
    app.signer("ours", secret=SECRET)
    return app


class Beside:
    """A connection of the test's own to a database."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._side = Side(url)
        self.is_sqlite = self._side.is_sqlite

    def ask(self, text: str) -> list[Any]:
        """Run one statement in a transaction of its own and return its rows."""
        cursor = self._side.connection.execute(text.format(now=NOW[self.is_sqlite]))
        return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def number(self, text: str) -> int:
        """The one number that a question is answered with."""
        [(found,)] = self.ask(text)
        return int(found)

    def reopen(self) -> None:
        """Connect again, to a server that was away."""
        self._side.close()
        self._side = Side(self._url)

    def close(self) -> None:
        """Hang up."""
        self._side.close()


class Outbox(Beside):
    """The messages of one database."""

    def expire(self) -> None:
        """Let the leases of dead relays run out."""
        self.ask(EXPIRE)

    def hurry(self) -> None:
        """Let what waits for its next attempt wait no longer."""
        self.ask(HURRY)

    def left(self) -> int:
        """How many messages are neither sent nor dead."""
        return self.number(LEFT)

    def rows(self) -> list[Any]:
        """Everything that a relay could change about messages."""
        return [self.ask(ROWS), sorted(self.ask(HISTORY))]


class Post(Outbox):
    """The test's own application on the database, and its view of both ends.

    ``beside`` leads past whatever stands between the relays and the database.
    """

    def __init__(self, url: str, there: Receiver, beside: str = "") -> None:
        self.url = url
        self.there = there
        self.app = sender(beside or url, there.url)
        self.app.store.open()
        super().__init__(beside or url)
        # The ids of what was staged, by the path that it goes to.
        self.staged: dict[str, str] = {}

    def stage(self, paths: Iterable[str], **options: Any) -> None:
        """A signed message to each path, each in a transaction of its own."""
        for path in paths:
            made = self.app.send(self.there.url + path, json={"path": path}, sign="ours", **options)
            self.staged[path] = made.id

    def counted(self) -> int:
        """The resends that the counters know of."""
        return self.number(RESENT)

    def finish(self) -> duly.types.Relayed:
        """Send what is left, as the next relay does after a crash; what it did."""
        self.expire()
        return asyncio.run(self._finished())

    async def _finished(self) -> duly.types.Relayed:
        relay = self.app.process.relay(RelaySettings(lease=timedelta(seconds=30)))
        running = asyncio.create_task(relay.run("stopped"))
        until = time.monotonic() + PATIENCE
        while self.left() and not running.done():
            assert time.monotonic() < until, "it is never sent"
            self.hurry()
            relay.wake()
            await asyncio.sleep(0.01)
        relay.stop()
        try:
            return await running
        finally:
            await self.app.store.aclose_loop()

    def forget(self) -> None:
        """Begin anew at both ends."""
        self.ask("DELETE FROM duly_outbox")
        self.ask("DELETE FROM duly_history")
        self.there.requests.clear()
        self.staged.clear()

    def copies(self, path: str) -> int:
        """How often the message to this path has arrived."""
        return len(self.there.at(path))

    def check(self, dead: Iterable[str] = ()) -> None:
        """Each message arrived, always as the same, and ended once."""
        assert self.number(LEASED) == 0, "a lease was left"
        assert self.left() == 0, "a message was left"
        given_up = {self.staged[path] for path in dead}
        assert {str(row[0]) for row in self.ask(DEAD)} == given_up
        attempts: dict[str, int] = {}
        for message, outcome, count in self.ask(HISTORY):
            assert str(message) not in attempts, "a message ended twice"
            assert outcome == "sent", outcome
            attempts[str(message)] = count
        assert set(attempts) == set(self.staged.values()) - given_up
        for path, message in self.staged.items():
            self._check_copies(path, message)
            if message in attempts:
                assert attempts[message] >= self.copies(path), "sent more often than was counted"

    def _check_copies(self, path: str, message: str) -> None:
        copies = self.there.at(path)
        assert copies, f"{path} never arrived"
        assert json.loads(copies[0].body) == {"path": path}
        for copy in copies:
            told = copy.headers
            assert copy.body == copies[0].body
            assert told["webhook-id"] == message
            assert told["idempotency-key"] == message
            assert duly.verify(SOURCE, list(told.items()), copy.body).id == message

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.app.close()
        self.close()
