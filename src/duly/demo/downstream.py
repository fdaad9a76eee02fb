"""The receiver downstream: writes every receipt into a journal of its own, then answers.

It behaves like others' receivers: now and then it fails, and now and then it takes a message and
says nothing. What it takes for genuine must be signed by the shop.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import re
import sqlite3
from typing import TYPE_CHECKING

from duly.demo.shared_counters import CounterIndex
from duly.demo.shop import key_of

if TYPE_CHECKING:
    from pathlib import Path

    from duly.demo.settings import Settings
    from duly.demo.shared_counters import SharedCounters

JOURNAL = "CREATE TABLE receipts (message TEXT NOT NULL, event TEXT NOT NULL)"
HEADER = re.compile(rb"\r\n([^:\r\n]+):[ \t]*([^\r\n]*)")
# Shares of the messages: answered 503, and taken without an answer.
FAILS, SILENT = 0.01, 0.01
# Seconds that a commit waits for company.
GATHERING = 0.003

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
LATER = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nretry-after: 0\r\n\r\n"
FORGED = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n"


class DownstreamReceiver:
    """The journal, and whoever waits for it."""

    def __init__(self, settings: Settings, shared: SharedCounters, journal: Path) -> None:
        self.shared = shared
        self.dice = settings.dice("downstream")
        self._key = key_of(settings.seed, "downstream")
        self._journal = sqlite3.connect(journal, isolation_level=None)
        self._journal.execute("PRAGMA journal_mode = WAL")
        self._journal.execute("PRAGMA synchronous = NORMAL")
        self._journal.execute(JOURNAL)
        self._waiting: list[tuple[DownstreamConnection, str, str]] = []

    def genuine(self, headers: dict[bytes, bytes], body: bytes) -> bool:
        """Whether the shop has signed it."""
        parts = headers.get(b"webhook-id", b""), headers.get(b"webhook-timestamp", b""), body
        mac = base64.b64encode(hmac.digest(self._key, b".".join(parts), "sha256"))
        return hmac.compare_digest(b"v1," + mac, headers.get(b"webhook-signature", b""))

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()

    def take(self, reading: DownstreamConnection, message: str, event: str) -> None:
        """Have a receipt written; it is answered once it is."""
        if not self._waiting:
            asyncio.get_running_loop().call_later(GATHERING, self._write)
        self._waiting.append((reading, message, event))

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._journal.execute("BEGIN IMMEDIATE")
        rows = [(message, event) for _, message, event in waiting]
        self._journal.executemany("INSERT INTO receipts VALUES (?, ?)", rows)
        self._journal.execute("COMMIT")
        self.shared.add(CounterIndex.RECEIPTS, len(waiting))
        for reading, _, _ in waiting:
            reading.answer(
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
        if not receiver.genuine(headers, body):
            self._write(FORGED)
        elif receiver.dice.random() < FAILS and not receiver.shared[CounterIndex.CALM]:
            self._write(LATER)
        else:
            message = headers[b"idempotency-key"].decode()
            receiver.take(self, message, json.loads(body)["event"])

    def answer(self, *, silent: bool) -> None:
        """Say that the message was taken, or hang up with nothing said."""
        if silent and self._transport is not None:
            self._transport.abort()
        else:
            self._write(OK)

    def _write(self, reply: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(reply)
