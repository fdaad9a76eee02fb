"""What the sender knows at the end: only what it has seen itself."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# What is known of an event, one bit each.
SENT, ACKNOWLEDGED, FIRST, SECOND, REPLAYED = 1, 2, 4, 8, 16
# How many examples of something wrong are kept.
EXAMPLES = 20


@dataclass(slots=True)
class SenderLog:
    """The sender's books. ``flags`` has a byte for each event, by its number."""

    calm_from: int | None = None
    deliveries: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    """How many deliveries were told what: a word of the edge, a status, or nothing."""
    not_genuine: Counter[str] = field(default_factory=Counter)
    """The same for those with a bad or an old signature."""
    wrong: list[str] = field(default_factory=list)
    """Answers that may not be: the first of them, in words."""
    wrong_count: int = 0
    firsts_twice: int = 0
    flags: bytearray = field(default_factory=bytearray)

    def mark(self, number: int, flag: int) -> bool:
        """Note something of an event; whether it was not known before."""
        if number >= len(self.flags):
            self.flags.extend(bytes(number + 1024 - len(self.flags)))
        before = self.flags[number]
        self.flags[number] = before | flag
        return not before & flag

    def flags_of(self, number: int) -> int:
        """What is known of an event."""
        return self.flags[number] if number < len(self.flags) else 0

    def record_wrong_answer(self, text: str) -> None:
        """Note an answer that may not be."""
        self.wrong_count += 1
        if len(self.wrong) < EXAMPLES:
            self.wrong.append(text)

    def save(self, path: Path) -> None:
        """Write the books down, for whoever audits them."""
        path.with_suffix(".flags").write_bytes(self.flags)
        names = [one.name for one in fields(self) if one.name != "flags"]
        path.write_text(json.dumps({name: getattr(self, name) for name in names}))


def read_sender_log(path: Path) -> SenderLog:
    """The books as they were saved."""
    known = json.loads(path.read_text())
    for name in ("answers", "not_genuine"):
        known[name] = Counter(known[name])
    return SenderLog(**known, flags=bytearray(path.with_suffix(".flags").read_bytes()))
