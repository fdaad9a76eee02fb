"""Where a run is killed and where it is paused, from what a single run did."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from duly.prove.statements import shorten, verb_of
from duly.prove.trace import CLAIMS, TAKEN
from duly.prove.watch import Trap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.prove.trace import Mark
    from duly.prove.watch import Side, TrapAction


# The statement by which a job ends well.
SETTLES = "jobs_done"
# These, and those by which its row goes.
ENDS = (SETTLES, "jobs_remove")


@dataclass(frozen=True, slots=True)
class Point:
    """A place in a run: a mark of the single run, and which side of it."""

    index: int
    side: Side
    description: str
    # Whether the user's code has done everything by then, so that all of it is done once more.
    whole: bool = False

    def trap(self, manner: TrapAction, marks: Sequence[Mark]) -> Trap:
        """A trap at this place."""
        return Trap(manner, marks[self.index].place, self.side)


def kill_points(marks: Sequence[Mark]) -> list[Point]:
    """Before the first thing that the user's code does, and after each; and after each COMMIT."""
    found: list[Point] = []
    for index, mark in enumerate(marks):
        if mark.phase == "relay":
            continue
        if mark.theirs and not any(marks[point.index].theirs for point in found):
            found.append(Point(index, "before", f"before {step_summary(mark)}"))
        if mark.ours is not None and mark.ours.startswith(SETTLES):
            found.append(Point(index, "before", "when the handler was through", whole=True))
        if mark.theirs or mark.ends or (mark.ours is not None and mark.transaction is None):
            found.append(Point(index, "after", f"after {describe_step(marks, index)}"))
    return found if any(point.whole for point in found) else with_last(marks, found)


def with_last(marks: Sequence[Mark], points: list[Point]) -> list[Point]:
    """Without a job that ends, a handler is through with the last thing that it does."""
    own = [place for place, point in enumerate(points) if marks[point.index].theirs]
    last = own[-1] if own else None
    return [replace(point, whole=place == last) for place, point in enumerate(points)]


def pause_points(marks: Sequence[Mark]) -> list[Point]:
    """Where a worker has a job and no transaction is open: nothing keeps others from going on."""
    taken = False
    found: list[Point] = []
    for index, mark in enumerate(marks):
        taken |= mark.ours == TAKEN
        if mark.ours is not None and mark.ours.startswith(SETTLES):
            break  # what comes after the end of the lease cannot lose it
        if mark.phase == "work" and taken and mark.alone and mark.ours in (TAKEN, None):
            found.append(Point(index, "after", f"after {describe_step(marks, index)}"))
    return found


def step_summary(mark: Mark) -> str:
    """A step in a few words."""
    return mark.text if mark.kind == "call" else shorten(mark.text)


def describe_step(marks: Sequence[Mark], index: int) -> str:
    """What has happened when this step is done."""
    mark = marks[index]
    if mark.theirs:
        return step_summary(mark)
    contents = [one for one in marks[:index] if one.transaction == mark.transaction]
    if mark.transaction is None:
        contents = [mark]
    own = [one for one in contents if one.theirs and verb_of(one.text)]
    if own:
        word = mark.text.split()[0].upper()
        return f"{step_summary(own[-1])}, and its {word}"
    return describe_settled({one.ours for one in contents if one.ours is not None}) or step_summary(
        mark
    )


def describe_settled(names: set[str]) -> str | None:
    """What statements of duly's have settled."""
    meanings = {
        "the event was accepted": CLAIMS,
        "a worker had taken the job": {TAKEN},
        "the job was settled": {name for name in names if name.startswith(ENDS)},
        "a job was enqueued": {name for name in names if name.startswith("jobs_insert")},
        "a message was staged": {name for name in names if name.startswith("outbox_insert")},
        "a step of job.effect was written down": {
            name for name in names if name.startswith("effects_")
        },
    }
    return next((meaning for meaning, known in meanings.items() if names & known), None)
