"""What the ids and times of a sample are derived from."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

DAY = 86_400


class Seed(NamedTuple):
    """The id of an event, the time it happened at, and what happened where that is told apart."""

    id: str
    now: datetime
    action: str = ""

    @property
    def seconds(self) -> int:
        """The time, in seconds since 1970."""
        return int(self.now.timestamp())

    def in_days(self, days: int) -> int:
        """A later time, in seconds since 1970."""
        return self.seconds + days * DAY

    @property
    def iso(self) -> str:
        """The time as ISO 8601 in UTC."""
        return f"{self.now:%Y-%m-%dT%H:%M:%SZ}"

    def token(self, prefix: str, length: int = 24) -> str:
        """An id of text for the object with this prefix, always the same for one event."""
        return prefix + self._digest(prefix)[:length]

    def number(self, name: str, digits: int) -> int:
        """An id of digits, always the same for one event."""
        least = 10 ** (digits - 1)
        return int(least + int(self._digest(name), 16) % (9 * least))

    def commit(self, name: str) -> str:
        """An id of a commit."""
        return self._digest(name)[:40]

    def _digest(self, name: str) -> str:
        return hashlib.sha256(f"{name} {self.id}".encode()).hexdigest()


def fixed_id(prefix: str, length: int = 14) -> str:
    """The id of something that is the same in every event, such as the customer."""
    return prefix + hashlib.sha256(prefix.encode()).hexdigest()[:length]
