"""Four senders: genuine signed deliveries, new ones and copies, and orders to the site."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from typing import TYPE_CHECKING

import duly
from verification.setups.books import NO_REPLY
from verification.setups.catalog import CHECKOUT, SOURCES

if TYPE_CHECKING:
    from verification.setups.books import Books, Sent
    from verification.setups.catalog import Setup

SENDERS = 4
SECRET = "whsec_" + "A" * 32
# Deliveries a second of one sender: enough to overlap, few enough for the jobs to keep up.
RATE = 40.0
# The share of deliveries that are copies.
COPIES = 0.12
# Seconds that a sender waits after a delivery without an answer: nothing listens meanwhile.
HESITATING = 0.2
# Seconds for an answer: longer than a healthy server ever takes.
PATIENCE = 10.0
# Seconds for everything to be acknowledged once the faults are over.
SETTLING = 60.0


class Wire:
    """A connection to the server that is kept, and made anew where it broke."""

    def __init__(self, setup: Setup, port: int) -> None:
        self._setup, self._port = setup, port
        self._connection: http.client.HTTPConnection | None = None

    def deliver(self, sent: Sent) -> str:
        """Send it once; what was answered."""
        if sent.target == CHECKOUT:
            body = json.dumps({"order": sent.id}).encode()
            headers = {"Content-Type": "application/json"}
        else:
            document = json.dumps({"type": "entry.made", "entry": sent.id}).encode()
            signed = duly.sign("standard-webhooks", document, SECRET, id=sent.id)
            body, headers = signed.body, dict(signed.headers)
        try:
            return self._posted(self._setup.path_of(sent.target), body, headers)
        except (OSError, http.client.HTTPException):
            self.close()
            return NO_REPLY

    def _posted(self, path: str, body: bytes, headers: dict[str, str]) -> str:
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        self._connection.request("POST", path, body, headers)
        reply = self._connection.getresponse()
        told = reply.read()
        if reply.status != 200:
            return str(reply.status)
        return str(json.loads(told)["status"])

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Sender(threading.Thread):
    """Sends until it is told that it is over."""

    def __init__(self, wire: Wire, targets: tuple[str, ...], books: Books, seed: str) -> None:
        super().__init__(daemon=True)
        self._wire, self._targets, self._books = wire, targets, books
        self._dice = random.Random(seed)
        self._over = threading.Event()

    def run(self) -> None:
        """One delivery after another, at most so many a second."""
        try:
            while not self._over.is_set():
                begun = time.monotonic()
                sent = self._next()
                answer = self._wire.deliver(sent)
                self._books.note(sent, answer)
                pause = HESITATING if answer == NO_REPLY else 1 / RATE
                self._over.wait(max(0.0, begun + pause - time.monotonic()))
        finally:
            self._wire.close()

    def _next(self) -> Sent:
        if self._dice.random() < COPIES and (recent := self._books.recent(self._dice)):
            return recent
        target = self._dice.choice(self._targets)
        return self._books.new(target, copied=target != CHECKOUT)

    def stop(self) -> None:
        """Say that it is over."""
        self._over.set()


def hire(setup: Setup, port: int, books: Books, seed: int) -> list[Sender]:
    """Four senders, at work."""
    senders = [
        Sender(Wire(setup, port), setup.targets, books, f"{seed}/{setup.name}/{number}")
        for number in range(SENDERS)
    ]
    for sender in senders:
        sender.start()
    return senders


def send_again(setup: Setup, port: int, books: Books) -> None:
    """What a provider does: send what was not acknowledged until it is, or time is over.

    An order to the site is not sent again: it has no key, so its sender cannot know.
    """
    wire, deadline = Wire(setup, port), time.monotonic() + SETTLING
    try:
        while (left := books.unacknowledged(*SOURCES["both"])) and time.monotonic() < deadline:
            for sent in left:
                books.note(sent, wire.deliver(sent))
            if books.unacknowledged(*SOURCES["both"]):
                time.sleep(0.2)
    finally:
        wire.close()
