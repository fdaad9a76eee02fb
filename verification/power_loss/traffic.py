"""Senders and a worker at full speed, and what each of them was told, in order."""

from __future__ import annotations

import random
import threading
import time
from contextlib import closing, contextmanager
from itertools import count
from typing import TYPE_CHECKING

import duly
from verification.power_loss.flows import delivery
from verification.power_loss.promises import world_after
from verification.power_loss.shop import Clock, shop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from verification.power_loss.promises import World

SENDERS = 3
# How often a sender repeats itself, and how often somebody enqueues a job.
AGAIN, ENQUEUEING = 0.2, 0.2
# Seconds before the next try while the database is away.
BREATH = 0.05
KINDS = ("paid", "paid", "paid", "ring", "ring", "moody", "poison", "broken")


class Traffic:
    """A shop at work, in threads of this process."""

    def __init__(self, url: str, seed: int, durability: str) -> None:
        self.url = url
        self.told: list[tuple[str, ...]] = []
        self.refused = 0
        self._durability = durability
        self._dice = random.Random(seed)  # to be repeated
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._clock = Clock()

    def tell(self, *words: str) -> None:
        """Somebody hears something."""
        with self._lock:
            self.told.append(words)

    def answered(self) -> int:
        """How many deliveries were answered 2xx so far."""
        return sum(words[0] == "answered" for words in self.told)

    def world(self) -> World:
        """What everybody outside knows by now."""
        with self._lock:
            return world_after(self.told)

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Send and work until the block ends."""
        self.tell("flow", self._clock().isoformat(), "traffic")
        self._ending.clear()
        app = shop(self.url, self.tell, self._clock, scheduled=False, durability=self._durability)
        duties = [*[self._send] * SENDERS, self._work]
        threads = [threading.Thread(target=self._do, args=(duty, app)) for duty in duties]
        with closing(app):
            for thread in threads:
                thread.start()
            try:
                yield
            finally:
                self._ending.set()
                for thread in threads:
                    thread.join()

    def _do(self, duty: Callable[[duly.Duly], None], app: duly.Duly) -> None:
        """Do it again and again; a database that is away is part of the story."""
        while not self._ending.is_set():
            try:
                duty(app)
            except duly.errors.DulyError:
                time.sleep(BREATH)

    def _send(self, app: duly.Duly) -> None:
        """One delivery, of a new event or of one that was sent before; sometimes a job."""
        name, kind = self._event()
        source = "till" if kind == "ring" else "orders"
        signed = delivery(name, kind, self._clock)
        self.tell("sends", source, kind, name)
        if app.receive(source, signed.headers, signed.body).status == 200:
            self.tell("answered", name)
        else:
            self.refused += 1
        if self._dice.random() < ENQUEUEING:
            self._enqueue(app)

    def _event(self) -> tuple[str, str]:
        with self._lock:
            known = [words[3] for words in self.told if words[0] == "sends"]
            if known and self._dice.random() < AGAIN:
                name = self._dice.choice(known)
                return name, name.partition("-")[0]
            kind = self._dice.choice(KINDS)
            return f"{kind}-{next(self._numbers)}", kind

    def _enqueue(self, app: duly.Duly) -> None:
        kind = self._dice.choice(("pack", "remind"))
        name = f"once-{kind}-{next(self._numbers)}"
        self.tell("asks", kind, name)
        self.tell("enqueued", kind, name, app.enqueue(kind, {"order": name}).id)

    def _work(self, app: duly.Duly) -> None:
        app.work()
        app.relay()
