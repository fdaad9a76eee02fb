"""The load: a process of its own that keeps a number of connections busy, one request each.

`python -m benchmarks.ingesting.generator ORDER`: a JSON object in, one as its only line out.
The requests are built before the clock starts. A connection writes its next one as soon as the
reply to the last is there, so a server is asked for as much as it can do and no more. Only replies
within the window count; those still on their way at its end are waited for, so that what was
answered can be compared with what was kept.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, TypedDict, cast

import uvloop

from benchmarks.ingesting.deliveries import requests

if TYPE_CHECKING:
    from collections.abc import Iterator

ACCEPTED = b'"accepted"'
LENGTH = b"content-length: "
# More than any server here answers in a second, with one connection and with many.
MOST_OF_ONE, MOST = 8_000, 32_000
# How long the replies that are still on their way may take.
PATIENCE = 30.0
# No window is shorter, so that a rate is always a number.
MOMENT = 1e-6


class Order(TypedDict):
    """What to do."""

    port: int
    connections: int
    seconds: float
    warm_up: float
    size: str


class Found(TypedDict):
    """What was seen: times in seconds, the rest counted."""

    accepted: int
    seconds: float
    p50: float
    p99: float
    busy: float  # the share of one core that the load itself used
    kept: int  # accepted at any time, the warm-up included
    others: dict[str, int]  # every other end of a request: a status, a word, a lost connection


class Load:
    """The requests that are left, the window, and what was answered in it."""

    def __init__(self, order: Order) -> None:
        connections = order["connections"]
        most = int((order["seconds"] + order["warm_up"]) * min(MOST, MOST_OF_ONE * connections))
        self.requests: Iterator[bytes] = iter(requests(most, order["size"]))
        self.latencies: list[float] = []
        self.others: Counter[str] = Counter()
        self.before = 0
        self.over = False
        self.waiting = connections
        self.ended = asyncio.get_running_loop().create_future()
        self._since = self._spent = self._seconds = self._busy = 0.0
        self._inside = 0

    def open(self) -> None:
        """The window begins: what came before was the warm-up."""
        self.before = len(self.latencies)
        self._since, self._spent = time.perf_counter(), time.process_time()

    def close(self) -> None:
        """The window ends: no connection sends another."""
        if self.over:
            return
        if not self._since:  # refusals are fast: they used all requests up in the warm-up
            self.open()
        self.over = True
        self._seconds = max(time.perf_counter() - self._since, MOMENT)
        self._busy = (time.process_time() - self._spent) / self._seconds
        self._inside = len(self.latencies)

    def leave(self) -> None:
        """One connection is done."""
        self.waiting -= 1
        if self.waiting == 0 and not self.ended.done():
            self.ended.set_result(None)

    def found(self) -> Found:
        """What the window held."""
        inside = sorted(self.latencies[self.before : self._inside])
        return {
            "accepted": len(inside),
            "seconds": self._seconds,
            "p50": quantile(inside, 0.50),
            "p99": quantile(inside, 0.99),
            "busy": self._busy,
            "kept": len(self.latencies),
            "others": dict(self.others),
        }


class Caller(asyncio.Protocol):
    """One connection with one request in flight."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._transport: Any = None
        self._part = b""
        self._began = 0.0
        self._left = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Kept; nothing is sent before all connections are there."""
        self._transport = transport

    def send(self) -> None:
        """The next request, or an end where there is none or the window is closed."""
        load = self._load
        request = None if load.over else next(load.requests, None)
        if request is None:
            load.close()
            self._leave()
            return
        self._began = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Find out whether the reply is complete, then judge it and go on."""
        now = time.perf_counter()
        if self._part:
            data = self._part + data
        head = data.find(b"\r\n\r\n")
        place = data.find(LENGTH, 0, head) + len(LENGTH)
        if head < 0 or len(data) < head + 4 + int(data[place : data.index(b"\r", place)]):
            self._part = data
            return
        self._part = b""
        if data.startswith(b"HTTP/1.1 200") and ACCEPTED in data:
            self._load.latencies.append(now - self._began)
        else:
            self._load.others[outcome(data, head)] += 1
        self.send()

    def connection_lost(self, _: Exception | None) -> None:
        """A server that hangs up has not answered."""
        if not self._left:
            self._load.others["connection lost"] += 1
            self._leave()

    def _leave(self) -> None:
        self._left = True
        self._transport.close()
        self._load.leave()


def outcome(data: bytes, head: int) -> str:
    """A reply that is no acceptance: its status, and the word that says why where there is one."""
    status = data[9:12].decode(errors="replace")
    try:
        said = json.loads(data[head + 4 :])
        return f"{status} {said.get('error') or said['status']}"
    except (ValueError, KeyError, AttributeError):
        return status


def quantile(ordered: list[float], share: float) -> float:
    """The value that this share of them does not exceed; 0 where there are none."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


async def run(order: Order) -> Found:
    """Connect, warm up, measure, and wait for the last replies."""
    loop = asyncio.get_running_loop()
    load = Load(order)
    gc.freeze()
    gc.disable()
    callers = []
    for _ in range(order["connections"]):
        _, caller = await loop.create_connection(lambda: Caller(load), "127.0.0.1", order["port"])
        callers.append(caller)
    loop.call_later(order["warm_up"], load.open)
    loop.call_later(order["warm_up"] + order["seconds"], load.close)
    for caller in callers:
        caller.send()
    await asyncio.wait_for(load.ended, order["warm_up"] + order["seconds"] + PATIENCE)
    return load.found()


if __name__ == "__main__":
    print(json.dumps(uvloop.run(run(cast("Order", json.loads(sys.argv[1]))))), flush=True)
