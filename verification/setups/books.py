"""What the senders sent, and what they were told: the only memory that no fault can reach."""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

# Copies are made of the latest events, among them some that are still on their way.
LATEST = 40
NO_REPLY = "no reply"


@dataclass(slots=True)
class Sent:
    """One event or order, and every answer to it: `accepted`, `duplicate`, a status, no reply."""

    id: str
    target: str
    answers: list[str] = field(default_factory=list)

    @property
    def acknowledged(self) -> bool:
        """True once a sender was told 2xx."""
        return "accepted" in self.answers or "duplicate" in self.answers


class Books:
    """Everything that was sent; senders share it."""

    def __init__(self) -> None:
        self.sent: dict[str, Sent] = {}
        self._lock = threading.Lock()
        self._latest: deque[Sent] = deque(maxlen=LATEST)

    def new(self, target: str, *, copied: bool) -> Sent:
        """A new event or order; ``copied`` where copies of it may be sent."""
        with self._lock:
            sent = Sent(f"msg_{len(self.sent) + 1}", target)
            self.sent[sent.id] = sent
            if copied:
                self._latest.append(sent)
            return sent

    def recent(self, dice: random.Random) -> Sent | None:
        """One of the latest, to be sent again."""
        with self._lock:
            return dice.choice(self._latest) if self._latest else None

    def note(self, sent: Sent, answer: str) -> None:
        """Write an answer down."""
        with self._lock:
            sent.answers.append(answer)

    def answers(self) -> Counter[str]:
        """How often each answer was given."""
        with self._lock:
            return Counter(answer for sent in self.sent.values() for answer in sent.answers)

    def unacknowledged(self, *targets: str) -> list[Sent]:
        """What its sender has to send again."""
        with self._lock:
            return [
                sent
                for sent in self.sent.values()
                if sent.target in targets and not sent.acknowledged
            ]
