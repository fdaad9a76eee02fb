"""Senders under load: each sends event after event, again until it is taken, and keeps a diary."""

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from duly.webhooks.sign import Signed
from tests.receiver.faults.doors import Answer
from tests.receiver.faults.shops import Senders
from tests.support.processes import until

# What a sender waits before it sends again; real ones wait far longer.
PAUSE = 0.05
UNANSWERED = "unanswered"


@dataclass
class Crowd:
    """Threads that send as long as the block lasts; every one of their events is taken at the end.

    Of each answer the crowd keeps when it came and what it said, and of all how long the longest
    took.
    """

    senders: Senders
    size: int = 8
    answers: list[tuple[float, str]] = field(default_factory=list)
    longest: float = 0.0
    problems: list[Answer] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Self:
        for number in range(self.size):
            thread = threading.Thread(target=self._send, args=[number])
            thread.start()
            self._threads.append(thread)
        return self

    def _send(self, sender: int) -> None:
        event = 0
        while not self._stop.is_set():
            event += 1
            delivery = self.senders.delivery(f"evt_{sender}_{event}")
            while not self._taken(delivery):
                time.sleep(PAUSE * random.random())  # as a sender does before it comes again
            if random.random() < 0.2:  # a sender that lost our answer
                self._taken(delivery)

    def _taken(self, delivery: Signed) -> bool:
        begun = time.monotonic()
        try:
            answer = self.senders.post(delivery)
        except OSError:  # the server ended before it could answer
            self.answers.append((time.monotonic(), UNANSWERED))
            return False
        now = time.monotonic()
        self.longest = max(self.longest, now - begun)
        self.answers.append((now, answer.said))
        if answer.status != 200 and not answer.come_again:
            self.problems.append(answer)
        return answer.status == 200 or bool(self.problems)

    def accepted_after(self, moment: float, number: int = 20) -> float:
        """Wait until so many were accepted after a moment; when the first of them was."""

        def seen() -> float | None:
            found = [at for at, said in self.answers if said == "accepted" and at > moment]
            return min(found) if len(found) >= number else None

        return until(seen)

    def goes_on(self, number: int) -> None:
        """Wait until so many more were answered, or were not."""
        enough = len(self.answers) + number
        until(lambda: len(self.answers) >= enough or None)

    @property
    def said(self) -> Counter[str]:
        """How often each answer was given."""
        return Counter(word for _, word in self.answers)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if problem is None:
            assert not self.problems, self.problems[:3]
