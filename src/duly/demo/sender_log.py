"""The sender's log: what it sent, and how it was answered."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# What is known of an event, one bit each.
SENT, ACKNOWLEDGED, FIRST, SECOND, REPLAYED = 1, 2, 4, 8, 16
# Wrong answers that are kept as examples.
EXAMPLES = 20


@dataclass(slots=True)
class SenderLog:
    """What the sender has seen itself. ``flags`` has a byte for each event, by its number."""

    calm_from: int | None = None
    deliveries: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    """How many deliveries had which answer: duly's status, an HTTP status, or none."""
    not_genuine: Counter[str] = field(default_factory=Counter)
    """The same for those with a bad or a stale signature."""
    wrong: list[str] = field(default_factory=list)
    """Wrong answers: the first of them, in words."""
    wrong_count: int = 0
    firsts_twice: int = 0
    flags: bytearray = field(default_factory=bytearray)

    def mark(self, number: int, flag: int) -> bool:
        """Set a flag of an event; return True if it was not set before."""
        if number >= len(self.flags):
            self.flags.extend(bytes(number + 1024 - len(self.flags)))
        before = self.flags[number]
        self.flags[number] = before | flag
        return not before & flag

    def flags_of(self, number: int) -> int:
        """Return the flags of an event."""
        return self.flags[number] if number < len(self.flags) else 0

    def record_wrong_answer(self, text: str) -> None:
        """Record a wrong answer."""
        self.wrong_count += 1
        if len(self.wrong) < EXAMPLES:
            self.wrong.append(text)

    def save(self, path: Path) -> None:
        """Write the log to a file, for the audit."""
        path.with_suffix(".flags").write_bytes(self.flags)
        names = [one.name for one in fields(self) if one.name != "flags"]
        path.write_text(json.dumps({name: getattr(self, name) for name in names}))


def read_sender_log(path: Path) -> SenderLog:
    """Read a log that was saved."""
    known = json.loads(path.read_text())
    for name in ("answers", "not_genuine"):
        known[name] = Counter(known[name])
    return SenderLog(**known, flags=bytearray(path.with_suffix(".flags").read_bytes()))
