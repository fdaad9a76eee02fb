"""The load: a process of its own that keeps a number of connections busy, one request each.

`python -m benchmarks.ingesting.generator ORDER`: a JSON object in, one as its only line out.
The requests are built before the clock starts. A connection writes its next one as soon as the
reply to the last is there, so a server is asked for as much as it can do and no more. Only replies
within the window count; those still on their way at its end are waited for, so that what was
answered can be compared with what was kept. The load shares its machine with what it measures, so
it must cost little: sockets and a selector, no event loop, no future, a scan of each reply.
"""

from __future__ import annotations

import gc
import json
import selectors
import socket
import sys
import time
from collections import Counter
from selectors import EVENT_READ, EVENT_WRITE
from typing import TYPE_CHECKING, TypedDict, cast

from benchmarks.ingesting.deliveries import requests
from benchmarks.processor import Meter

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "127.0.0.1"
OK, ACCEPTED = b"HTTP/1.1 200 ", b'"accepted"'
END, LENGTH = b"\r\n\r\n", b"content-length: "
# More than any server here answers in a second, with one connection and with many.
MOST_OF_ONE, MOST = 10_000, 30_000
# How long the replies that are still on their way may take.
PATIENCE = 30.0
# No window is shorter, so that a rate is always a number.
MOMENT = 1e-6
# A reply that is longer is read in parts.
PART = 4096


class Order(TypedDict):
    """What to do."""

    port: int
    connections: int
    seconds: float
    warm_up: float
    size: str
    types: int  # of events; 0: one
    processes: list[int]  # whose processor time is asked for


class Found(TypedDict):
    """What was seen: times in seconds, the rest counted."""

    accepted: int
    seconds: float
    p50: float
    p99: float
    busy: float  # the share of one core that the load itself used
    spent: list[float]  # processor time of each process in the window, its descendants included
    kept: int  # accepted at any time, the warm-up included
    others: dict[str, int]  # every other end of a request: a status, a word, a lost connection


class Caller:
    """One connection with one request in flight."""

    __slots__ = ("_began", "_identifier", "_load", "_part", "_unsent", "socket")

    def __init__(self, load: Load, connected: socket.socket) -> None:
        self.socket = connected
        self._load = load
        self._part = self._identifier = b""
        self._unsent = memoryview(b"")
        self._began = 0.0

    def send(self, now: float) -> None:
        """Write the next request, or leave where there is none or the window is closed."""
        taken = self._load.next_request()
        if taken is None:
            self._load.leave(self)
            return
        self._identifier, request = taken
        self._began = now
        written = self.socket.send(request)
        if written < len(request):
            self._unsent = memoryview(request)[written:]
            self._load.watch(self, EVENT_READ | EVENT_WRITE)

    def ready(self, events: int) -> None:
        """Go on with what the socket is ready for."""
        try:
            if events & EVENT_WRITE:
                self._write()
            if events & EVENT_READ:
                self._read()
        except ConnectionError:
            self._lose("connection lost")
        except ValueError:
            self._lose("a reply without a length")

    def _write(self) -> None:
        self._unsent = self._unsent[self.socket.send(self._unsent) :]
        if not self._unsent:
            self._load.watch(self, EVENT_READ)

    def _read(self) -> None:
        """Find out whether the reply is complete, then judge it and go on."""
        data = self.socket.recv(PART)
        now = time.perf_counter()
        if not data:  # a server that hangs up has not answered
            self._lose("connection lost")
            return
        if self._part:
            data = self._part + data
        missing = bytes_missing(data)
        if missing > 0:
            self._part = data
            return
        self._part = b""
        if missing < 0 or self._unsent:
            self._lose("a reply before its turn")
            return
        if data.startswith(OK) and ACCEPTED in data and self._identifier in data:
            self._load.latencies.append(now - self._began)
        else:
            self._load.others[outcome(data)] += 1
        self.send(now)

    def _lose(self, why: str) -> None:
        self._load.others[why] += 1
        self._load.leave(self)


class Load:
    """The requests that are left, the window, and what was answered in it."""

    def __init__(self, order: Order) -> None:
        self._meter = Meter(order["processes"])  # before there is much in memory
        connections = order["connections"]
        most = int((order["seconds"] + order["warm_up"]) * min(MOST, MOST_OF_ONE * connections))
        built = requests(most, order["size"], order["types"])
        self._requests: Iterator[tuple[bytes, bytes]] = iter(built)
        self._order = order
        self._selector = selectors.DefaultSelector()
        self.latencies: list[float] = []
        self.others: Counter[str] = Counter()
        self._before = self._inside = 0
        self._closed = False
        self._waiting = 0
        self._since = self._seconds = self._used = self._busy = 0.0

    def run(self) -> Found:
        """Connect, warm up, measure, and wait for the last replies."""
        callers = [self._connected() for _ in range(self._order["connections"])]
        gc.freeze()
        gc.disable()
        began = time.perf_counter()
        for caller in callers:
            caller.send(time.perf_counter())
        self._answer(until=began + self._order["warm_up"])
        if not self._since:
            self._open()
        self._answer(until=began + self._order["warm_up"] + self._order["seconds"])
        self._close()
        self._answer(until=time.perf_counter() + PATIENCE)
        if self._waiting:
            raise TimeoutError(f"{self._waiting} requests have had no reply in {PATIENCE:.0f} s")
        return self._found()

    def next_request(self) -> tuple[bytes, bytes] | None:
        """The id and the bytes of the next one; None at the end of the window or the requests."""
        taken = None if self._closed else next(self._requests, None)
        if taken is None:
            self._close()
        return taken

    def leave(self, caller: Caller) -> None:
        """One connection is done."""
        self._waiting -= 1
        self._selector.unregister(caller.socket)
        caller.socket.close()

    def watch(self, caller: Caller, events: int) -> None:
        """Wait for these events of a connection from now on."""
        self._selector.modify(caller.socket, events, caller.ready)

    def _connected(self) -> Caller:
        connected = socket.create_connection((HOST, self._order["port"]), PATIENCE)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setblocking(False)
        caller = Caller(self, connected)
        self._selector.register(connected, EVENT_READ, caller.ready)
        self._waiting += 1
        return caller

    def _answer(self, until: float) -> None:
        """Go on with every connection that is ready, until then or until none is left."""
        while self._waiting:
            left = until - time.perf_counter()
            if left <= 0:
                return
            for key, events in self._selector.select(left):
                key.data(events)

    def _open(self) -> None:
        """The window begins: what came before was the warm-up."""
        self._before = len(self.latencies)
        self._since = time.perf_counter()
        self._meter.read()
        self._used = time.process_time()

    def _close(self) -> None:
        """The window ends: no connection sends another."""
        if self._closed:
            return
        if not self._since:  # refusals are fast: they used all requests up in the warm-up
            self._open()
        self._closed = True
        used = time.process_time() - self._used
        self._seconds = max(time.perf_counter() - self._since, MOMENT)
        self._busy = used / self._seconds
        self._inside = len(self.latencies)
        self._meter.read()

    def _found(self) -> Found:
        """What the window held."""
        inside = sorted(self.latencies[self._before : self._inside])
        before, after = self._meter.readings(2)
        return {
            "accepted": len(inside),
            "seconds": self._seconds,
            "p50": quantile(inside, 0.50),
            "p99": quantile(inside, 0.99),
            "busy": self._busy,
            "spent": [late - early for early, late in zip(before, after, strict=True)],
            "kept": len(self.latencies),
            "others": dict(self.others),
        }


def bytes_missing(data: bytes) -> int:
    """How much of a reply is not there yet, at least; below 0, there is more than one reply."""
    head = data.find(END)
    if head < 0:
        return 1
    place = data.find(LENGTH, 0, head)
    if place < 0:
        place = data[:head].lower().index(LENGTH)
    place += len(LENGTH)
    return head + len(END) + int(data[place : data.index(b"\r", place)]) - len(data)


def outcome(data: bytes) -> str:
    """A reply that is no acceptance: its status, and the word that says why where there is one."""
    status = data[9:12].decode(errors="replace")
    try:
        said = json.loads(data.partition(END)[2])
        if said.get("status") == "accepted":
            return f"{status} accepted, but not the delivery that was sent"
        return f"{status} {said.get('error') or said['status']}"
    except (ValueError, KeyError, AttributeError):
        return status


def quantile(ordered: list[float], share: float) -> float:
    """The value that this share of them does not exceed; 0 where there are none."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


if __name__ == "__main__":
    print(json.dumps(Load(cast("Order", json.loads(sys.argv[1]))).run()), flush=True)
