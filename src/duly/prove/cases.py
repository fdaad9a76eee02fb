"""The cases of a proof: what is done to the handler, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from duly.prove.asks import Ask
    from duly.prove.points import Point

Shape = Literal["twice", "at-once", "reordered", "again", "kill", "pause", "fail"]
COPIES, PROCESSES = 20, 4


@dataclass(frozen=True, slots=True)
class Case:
    """One way to treat the handler.

    Args:
        name: how ``--only`` knows it: ``twice``, ``kill:7``.
        shape: what is done.
        told: what was done, as the beginning of a sentence.
        deliveries: what is delivered, each by a process of its own.
        point: where it is killed or paused.
        fresh: whether what comes after a kill is done by a process that shares nothing with it.
    """

    name: str
    shape: Shape
    description: str
    deliveries: tuple[Ask, ...]
    point: Point | None = None
    fresh: bool = False


def cases_of(
    asks: tuple[Ask, ...], kills: list[Point], pauses: list[Point], *, repeatable: bool
) -> list[Case]:
    """Every case, the quick and plain ones first.

    What fails and is tried again by the same process comes last: what a killed one would show
    as well was shown by then.
    """
    first = asks[0]
    found = [
        Case("twice", "twice", "delivered twice", (first, first)),
        Case("at-once", "at-once", f"delivered {COPIES} times at once", (first,)),
    ]
    if len(asks) > 1:
        found += [
            Case("reordered", "reordered", "delivered in the other order", asks[::-1]),
            Case("again", "again", "delivered again after a later one", (*asks, first)),
        ]
    found += [
        Case(f"kill:{number}", "kill", f"killed {point.description}", (first,), point, point.whole)
        for number, point in enumerate(kills)
    ]
    found += [
        Case(
            f"pause:{number}",
            "pause",
            f"paused {point.description} until its lease was over and another worker had done the "
            "job",
            (first,),
            point,
        )
        for number, point in enumerate(pauses)
    ]
    if repeatable:
        told = "failed at its end, and tried again by the same process"
        found.append(Case("fail", "fail", told, (first, first)))
    return found
