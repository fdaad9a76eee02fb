"""The receiver downstream: writes every receipt into a database of its own, then answers.

Like real receivers it fails now and then, and now and then it takes a message without an answer.
It accepts only messages that the shop has signed.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import re
import sqlite3
from typing import TYPE_CHECKING

from duly.demo.context import CounterIndex
from duly.demo.shop import key_of

if TYPE_CHECKING:
    from pathlib import Path

    from duly.demo.context import SharedCounters
    from duly.demo.settings import Settings

RECEIPTS = "CREATE TABLE receipts (message TEXT NOT NULL, event TEXT NOT NULL)"
HEADER = re.compile(rb"\r\n([^:\r\n]+):[ \t]*([^\r\n]*)")
# Shares of the messages: answered 503, and taken without an answer.
FAILS, SILENT = 0.01, 0.01
# Seconds that a commit waits for more receipts.
GATHERING = 0.003

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
LATER = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nretry-after: 0\r\n\r\n"
FORGED = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n"


class DownstreamReceiver:
    """Commits receipts in groups, and answers them afterwards."""

    def __init__(self, settings: Settings, shared: SharedCounters, path: Path) -> None:
        self.shared = shared
        self.dice = settings.dice("downstream")
        self._key = key_of(settings.seed, "downstream")
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.execute(RECEIPTS)
        self._waiting: list[tuple[DownstreamConnection, str, str]] = []

    def is_genuine(self, headers: dict[bytes, bytes], body: bytes) -> bool:
        """Return True if the shop has signed the message."""
        parts = headers.get(b"webhook-id", b""), headers.get(b"webhook-timestamp", b""), body
        mac = base64.b64encode(hmac.digest(self._key, b".".join(parts), "sha256"))
        return hmac.compare_digest(b"v1," + mac, headers.get(b"webhook-signature", b""))

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def add_receipt(self, connection: DownstreamConnection, message: str, event: str) -> None:
        """Add a receipt to the next commit; it is answered after that."""
        if not self._waiting:
            asyncio.get_running_loop().call_later(GATHERING, self._write)
        self._waiting.append((connection, message, event))

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._database.execute("BEGIN IMMEDIATE")
        rows = [(message, event) for _, message, event in waiting]
        self._database.executemany("INSERT INTO receipts VALUES (?, ?)", rows)
        self._database.execute("COMMIT")
        self.shared.add(CounterIndex.RECEIPTS, len(waiting))
        for connection, _, _ in waiting:
            connection.answer(
                silent=self.dice.random() < SILENT and not self.shared[CounterIndex.CALM]
            )


class DownstreamConnection(asyncio.Protocol):
    """One connection of a relay."""

    def __init__(self, receiver: DownstreamReceiver) -> None:
        self._receiver = receiver
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request."""
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Read requests, one after the other."""
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            found = HEADER.findall(self._received[: end + 2])
            headers = {name.lower(): value for name, value in found}
            size = end + 4 + int(headers.get(b"content-length", b"0"))
            if len(self._received) < size:
                return
            body, self._received = self._received[end + 4 : size], self._received[size:]
            self._request(headers, body)

    def _request(self, headers: dict[bytes, bytes], body: bytes) -> None:
        receiver = self._receiver
        if not receiver.is_genuine(headers, body):
            self._write(FORGED)
        elif receiver.dice.random() < FAILS and not receiver.shared[CounterIndex.CALM]:
            self._write(LATER)
        else:
            message = headers[b"idempotency-key"].decode()
            receiver.add_receipt(self, message, json.loads(body)["event"])

    def answer(self, *, silent: bool) -> None:
        """Answer that the message was taken, or hang up without an answer."""
        if silent and self._transport is not None:
            self._transport.abort()
        else:
            self._write(OK)

    def _write(self, reply: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(reply)
