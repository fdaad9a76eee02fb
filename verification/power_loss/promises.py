"""What the world was told before the power went, and must not turn out to be wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# The names of what is old enough to be pruned begin so; once pruning began, it need not be there.
OLD = "old-"


@dataclass(slots=True)
class World:
    """What everybody outside knows.

    Args:
        sent: the events that senders have begun to send: source and type by id.
        answered: those of them that were answered 2xx, and will not be sent again.
        asked: the jobs that somebody wanted: their name by the order that they are for.
        enqueued: the ids of jobs that somebody was told are there.
        calls: the idempotency keys of the calls that were made for each order, by kind.
        mails: the ids of the messages that arrived for each order.
        flow: what was being done.
        moment: when that began.
        created: whether the tables are said to be there.
        pruned: whether what is old may be gone.
    """

    sent: dict[str, tuple[str, str]] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    asked: dict[str, str] = field(default_factory=dict)
    enqueued: dict[str, str] = field(default_factory=dict)
    calls: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    mails: dict[str, set[str]] = field(default_factory=dict)
    flow: str = ""
    moment: datetime | None = None
    created: bool = False
    pruned: bool = False

    def hear(self, *words: str) -> None:
        """One thing more."""
        match words:
            case "flow", moment, *rest:
                self.flow, self.moment = " ".join(rest), datetime.fromisoformat(moment)
                self.pruned |= self.flow == "prune"
            case ("created",):
                self.created = True
            case "sends", source, kind, name:
                self.sent[name] = (source, kind)
            case "answered", name:
                self.answered.add(name)
            case _:
                self._hear_of_work(*words)

    def _hear_of_work(self, *words: str) -> None:
        match words:
            case "asks", kind, name:
                self.asked[name] = kind
            case "enqueued", _, name, job:
                self.enqueued[name] = job
            case "mail", name, key:
                self.mails.setdefault(name, set()).add(key)
            case ("charge" | "call") as kind, name, key:
                self.calls.setdefault((kind, name), set()).add(key)
            case _:
                raise ValueError(f"the world does not understand {words}")

    def remembers(self, name: str) -> bool:
        """Whether what has this name must still be in the database."""
        return not (self.pruned and name.startswith(OLD))


def world_after(told: Iterable[tuple[str, ...]]) -> World:
    """What the world knows after it was told this."""
    world = World()
    for words in told:
        world.hear(*words)
    return world
