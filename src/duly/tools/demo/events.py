"""The stream of events: what each is worth, and when its copies are delivered, all from one seed.

Every event is delivered several times. The first copies go out together, so that several
processes hold the same event at the same instant; the others follow within two seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

SCOPE = "demo"

# One event in so many is long work under a lease. More would leave most workers asleep in it.
LONG_SHARE = 1 / 40
# Copies that arrive together, and copies that come later: real providers send both.
AT_ONCE = (1, 2, 2, 3)
AFTERWARDS = (0, 1, 1, 2)
# Long work is sent three times at once, so that somebody who was told to come back can take over.
LONG_AT_ONCE = 3
# Seconds within which the later copies follow: long enough to fall into somebody else's time,
# short enough that the end of the run need not wait for them.
SPREAD = 2.0


@dataclass(frozen=True, slots=True)
class Event:
    """What was meant: one payment, in cents. ``long`` says that handling it takes a while."""

    number: int
    amount: int
    long: bool

    @property
    def id(self) -> str:
        """The key under which the ledger knows it."""
        return f"evt_{self.number:06d}"


@dataclass(frozen=True, slots=True)
class Arrival:
    """A new event, the number of copies that arrive at once, and when the others follow."""

    event: Event
    at_once: int
    afterwards: list[float]


class Stream:
    """An endless, repeatable stream of events."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._number = 0

    def draw(self) -> Arrival:
        """The next event of the stream."""
        self._number += 1
        dice = self._dice
        event = Event(self._number, dice.randint(100, 9999), dice.random() < LONG_SHARE)
        at_once = LONG_AT_ONCE if event.long else dice.choice(AT_ONCE)
        # At least two copies in all: an event that comes once proves nothing.
        follow = max(dice.choice(AFTERWARDS), 2 - at_once)
        return Arrival(event, at_once, [dice.uniform(0.0, SPREAD) for _ in range(follow)])
