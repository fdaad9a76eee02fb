"""The events of a storm: each is computed from the seed and its number, so no list is kept."""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from typing import NamedTuple


class EventKind(StrEnum):
    """What an event does to the process that handles it, or what its sender does with it."""

    PLAIN = "plain"
    FLAKY = "flaky"  # its handler fails a few times, then succeeds
    POISON = "poison"  # its handler always fails
    KILLER = "killer"  # its handler kills the process it runs in
    CHANGED = "changed"  # sent again with another body under its signed id
    CONFLICT = "conflict"  # the same where the id is not signed


# Of ten thousand events. Each killer costs five processes: more of them would be a measurement of
# how fast Python starts.
SHARES = {
    EventKind.FLAKY: 200,
    EventKind.POISON: 100,
    EventKind.CHANGED: 50,
    EventKind.CONFLICT: 50,
    EventKind.KILLER: 10,
}
WHOLE = 10_000
# Of a hundred plain events: those that come from the source whose ids are not signed, and those
# that have a second handler, which works under a lease for a while.
HUB, GIFT = 5, 4
# How often a flaky event's handler fails before it succeeds.
MOST_FAILURES = 3
SHOP, HUB_SOURCE = "shop", "hub"


class StormEvent(NamedTuple):
    """One event, however often it is delivered."""

    number: int
    kind: EventKind
    amount: int
    fails: int
    gift: bool
    source: str

    @property
    def id(self) -> str:
        """Return its id, for the sender and the database."""
        return f"evt_{self.number}"

    @property
    def sends_message(self) -> bool:
        """Return True if its handler also sends a message: half of them do."""
        return sends_message(self.number)

    @property
    def dies(self) -> bool:
        """Return True if its job must end as a dead letter."""
        return self.kind in (EventKind.POISON, EventKind.KILLER)

    @property
    def type(self) -> str:
        """Return its type, which chooses the handlers: some are sync, some async."""
        name = "paid" if self.number % 2 else "refunded"
        return f"{name}.gift" if self.gift else name

    def body(self, *, amount: int | None = None) -> bytes:
        """Return its body; with another amount it is a changed body."""
        return json.dumps(
            {
                "type": self.type,
                "data": {
                    "event": self.number,
                    "amount": self.amount if amount is None else amount,
                    "kind": self.kind,
                    "fails": self.fails,
                },
            }
        ).encode()


class Catalog:
    """Computes events. From number ``calm_from`` on none of them kills."""

    def __init__(self, seed: int, calm_from: int | None = None) -> None:
        self._key = hashlib.sha256(str(seed).encode()).digest()
        self.calm_from = calm_from

    def event(self, number: int) -> StormEvent:
        """Return the event of a number."""
        drawn = hashlib.blake2b(number.to_bytes(8, "big"), key=self._key, digest_size=10).digest()
        kind = kind_of(int.from_bytes(drawn[0:4], "big") % WHOLE)
        if kind is EventKind.KILLER and self.calm_from is not None and number >= self.calm_from:
            kind = EventKind.PLAIN
        plain = kind is EventKind.PLAIN
        chance = drawn[4] % 100
        hub = kind is EventKind.CONFLICT or (plain and chance < HUB)
        return StormEvent(
            number,
            kind,
            amount=1 + int.from_bytes(drawn[5:8], "big") % 999,
            fails=1 + drawn[8] % MOST_FAILURES if kind is EventKind.FLAKY else 0,
            gift=plain and not hub and chance >= 100 - GIFT,
            source=HUB_SOURCE if hub else SHOP,
        )


def sends_message(number: int) -> bool:
    """Return True if the handler of the event of this number sends a message."""
    return number % 4 < 2


def kind_of(drawn: int) -> EventKind:
    """Return the kind that a number below ``WHOLE`` falls on."""
    for kind, share in SHARES.items():
        if drawn < share:
            return kind
        drawn -= share
    return EventKind.PLAIN
