"""The receiver: a process that counts messages and answers each in one write, at once.

It reads what it is told from its input: a number, to expect so many different messages and to print
when the first and the last of them arrived; or ``seen``, to print what has arrived since then. Its
clock is the machine's, which every process reads alike.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from time import monotonic
from typing import cast

import uvloop

HOST = "127.0.0.1"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
KEY = re.compile(rb"\r\nidempotency-key: *([^\r]+)", re.IGNORECASE)
LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)


class Counter:
    """What has arrived since it was told what to expect."""

    def __init__(self) -> None:
        self._expected = 0
        self._requests = 0
        self._keys: set[bytes] = set()
        self._first = 0.0

    def note(self, key: bytes) -> None:
        """A message arrived."""
        now = monotonic()
        if not self._requests:
            self._first = now
        self._requests += 1
        if key in self._keys:
            return
        self._keys.add(key)
        if len(self._keys) == self._expected:
            say({"first": self._first, "last": now})

    def hear(self, line: str) -> None:
        """Do what the input says."""
        if line == "seen":
            say({"requests": self._requests, "messages": len(self._keys)})
        else:
            self._expected, self._requests = int(line), 0
            self._keys.clear()


class Connection(asyncio.Protocol):
    """Requests one after another, however they are cut."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._rest = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep it for the answers."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete."""
        data, answers = self._rest + data, 0
        while (end := whole(data)) > 0:
            key = KEY.search(data, 0, end)
            self._counter.note(key[1] if key else b"")
            data, answers = data[end:], answers + 1
        self._rest = data
        if answers and self._transport is not None:
            self._transport.write(ANSWER * answers)


def whole(data: bytes) -> int:
    """Where the first request of these bytes ends; 0 while it is not complete."""
    body = data.find(b"\r\n\r\n") + 4
    if body < 4:
        return 0
    length = LENGTH.search(data, 0, body)
    end = body + (int(length[1]) if length else 0)
    return end if end <= len(data) else 0


def say(found: dict[str, float]) -> None:
    print(json.dumps(found), flush=True)


async def main() -> None:
    counter, loop = Counter(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(counter), HOST, 0)
    over = asyncio.Event()

    def listen() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(counter.hear, line.strip())
        loop.call_soon_threadsafe(over.set)  # whoever started this has ended

    threading.Thread(target=listen, daemon=True).start()
    say({"port": server.sockets[0].getsockname()[1]})
    await over.wait()


if __name__ == "__main__":
    uvloop.run(main())
