"""What a schedule is about: which events are sent, how often, and what their handlers do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from verification.simulation.scene import ALWAYS
from verification.simulation.senders import content

if TYPE_CHECKING:
    from random import Random

    from verification.simulation.scene import Plan, Scene
    from verification.simulation.senders import Post

# Which handlers the events of a source and type have.
HANDLERS = {
    ("shop", "paid"): ("pay",),
    ("shop", "told"): ("charge",),
    ("shop", "both"): ("pay", "charge"),
    ("shop", "state"): ("follow",),
    ("hook", ""): ("hooked",),
    ("till", ""): ("ring",),
    ("brief", ""): ("pay",),
}
SOURCES = (("shop", 0.52), ("hook", 0.22), ("till", 0.14), ("brief", 0.12))
TYPES = ("paid", "told", "told", "both", "state")
# Seconds that a run takes at most: less than its timeout.
LONGEST = 2.8
# Seconds over which copies are sent at once, and over which those are that come late.
SOON, LATE = 0.5, 24.0


def handlers_of(source: str, kind: str) -> tuple[str, ...]:
    """The handlers that an event of this kind must reach, each once."""
    return HANDLERS[source, kind if source == "shop" else ""]


class Script:
    """Draws the events of a schedule, and has them sent."""

    def __init__(self, dice: Random, post: Post, scene: Scene) -> None:
        self._dice = dice
        self._post = post
        self._scene = scene
        # By event: its source and type.
        self.events: dict[str, tuple[str, str]] = {}
        # Bodies of the source with unsigned ids, by the ids they came under first.
        for number in range(1 + int(dice.random() * 3)):
            self._write(number + 1)
        if dice.random() < 0.15:
            facts: dict[str, object] = {"type": "paid", "amount": 7}
            self._post.write(content("shop", "forged", facts, forged=True), self._soon())

    def _chance(self, chance: float) -> bool:
        return self._dice.random() < chance

    def _soon(self) -> float:
        return self._dice.random() * SOON

    def _source(self) -> str:
        draw = self._dice.random()
        for source, chance in SOURCES:
            draw -= chance
            if draw < 0:
                return source
        return "shop"

    def _write(self, number: int) -> None:
        """One event, in several copies."""
        dice, source, event = self._dice, self._source(), f"e{number}"
        kind = TYPES[int(dice.random() * len(TYPES))]
        facts: dict[str, object] = {
            "type": kind, "amount": number * 100, "object": "o", "version": number,
        }  # fmt: skip
        self.events[event] = source, kind
        for handler in handlers_of(source, kind):
            self._plan(self._scene.plan_for(event, handler), source)
        what = content(source, event, facts)
        first = self._soon()
        self._post.write(what, first)
        late = 0.7 if source == "brief" else 0.12
        while self._chance(0.45):
            self._post.world.faults["copy sent"] += 1
            self._post.write(what, dice.random() * (LATE if self._chance(late) else SOON))
        if self._chance(0.2):
            self._post.world.faults["body changed"] += 1
            changed = content(source, event, {**facts, "amount": number * 100 + 1})
            if self._chance(0.5):
                self._post.write(changed, self._soon())
            else:
                # At the moment of the first, and copies of both: some travel in one batch.
                for copy in (changed, what, changed, what, changed):
                    self._post.write(copy, first)
        if source == "hook" and self._chance(0.2):
            self._post.world.faults["body sent under another id"] += 1
            self.events[f"{event}-again"] = source, kind
            self._post.write(content(source, f"{event}-again", facts), self._soon())

    def _plan(self, plan: Plan, source: str) -> None:
        """What happens to the runs of a handler."""
        plan.pauses = self._chance(0.6)
        plan.late = self._chance(0.5)
        plan.lasts = self._dice.random() * LONGEST if self._chance(0.45) else 0.0
        plan.asks = ("retry", "park", "look")[int(self._dice.random() * 3)]
        draw = self._dice.random()
        if draw < 0.14:
            plan.fails = 1 + int(self._dice.random() * 2)
        elif draw < 0.19 and source != "till":  # its sender would never hear that it was taken
            plan.fails = ALWAYS
        elif draw < 0.23 and source != "till":
            plan.kills = True
        elif draw < 0.28 and source != "till":
            plan.gives_up = True
