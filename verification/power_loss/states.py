"""Every state in which a power cut may leave the disk, as far as a record goes.

After each step of the record the power may go. What was synced is there; of what was not, a disk
may have kept any part. All subsets would be too many, so those are taken that break a program which
relies on an order it did not ask for: nothing, everything, everything but the first, only the last,
the last one torn in three ways, one file's writes without the others', and a random half.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from verification.power_loss.disk import Disk, Kept, sectors_of
from verification.power_loss.record import Named, Synced, Told, Written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from verification.power_loss.disk import Change
    from verification.power_loss.record import Record, Step


@dataclass(frozen=True, slots=True)
class Choice:
    """What a disk may have kept of what was on its way."""

    words: str
    kept: list[Kept]
    renamings: list[Named]

    def mark(self) -> object:
        """Equal for choices that are the same in other words."""
        return (
            tuple((one.change.ended, one.sectors) for one in self.kept),
            tuple(one.ended for one in self.renamings),
        )


@dataclass(frozen=True, slots=True)
class Cut:
    """The power goes here, and the disk has kept this.

    Args:
        number: its place among all cuts of the record.
        flow: what the application was doing.
        after: the last step before the cut, in words.
        told: how much the world had been told.
        choice: what the disk kept of what was on its way.
        disk: the disk at this moment; it goes on with the record.
    """

    number: int
    flow: str
    after: str
    told: int
    choice: Choice
    disk: Disk

    def files(self) -> dict[str, bytes]:
        """What is found when the power is back."""
        return self.disk.after_a_cut(self.choice.kept, self.choice.renamings)

    def __str__(self) -> str:
        return f"in {self.flow}, after {self.after}, with {self.choice.words}"


def cuts(record: Record) -> Iterator[Cut]:
    """All of them, each state of the disk once for each thing that the world was told."""
    disk, flow, told, number = Disk(), "the beginning", 0, 0
    known: set[object] = set()
    for step in record.steps:
        before = disk.syncs
        disk.take(step)
        if isinstance(step, Told):
            told += 1
            flow = " ".join(step.words[2:]) if step.words[0] == "flow" else flow
        if isinstance(step, Told) or disk.syncs != before:
            known.clear()
        for choice in choices(disk):
            mark = choice.mark()
            if mark not in known:
                known.add(mark)
                yield Cut(number, flow, words(step, record), told, choice, disk)
                number += 1


def choices(disk: Disk) -> Iterator[Choice]:
    """What the disk may keep, from nothing to everything, in the ways that matter."""
    changes, renamings = disk.changes, disk.renamings
    whole = [Kept(one) for one in changes]
    yield Choice("nothing that was not synced", [], [])
    yield Choice("everything", whole, renamings)
    if renamings:
        yield Choice("everything but the names of files", whole, [])
        yield Choice("the names of files and nothing else", [], renamings)
    if changes:
        yield Choice("everything but the first write", whole[1:], renamings)
        yield Choice("the last write alone", whole[-1:], renamings)
        for sectors, how in torn(changes[-1]):
            last = Kept(changes[-1], sectors)
            yield Choice(f"everything, of the last write {how}", [*whole[:-1], last], renamings)
        half = random.Random(changes[-1].ended)  # the same whenever it is asked for
        yield Choice("a random half", [one for one in whole if half.random() < 0.5], renamings)
        for file in sorted({one.file for one in changes} if many(changes) else ()):
            kept = [one for one in whole if one.change.file == file]
            yield Choice("the writes to one file only", kept, renamings)


def many(changes: list[Change]) -> bool:
    """Whether more than one file is being written to."""
    return len({one.file for one in changes}) > 1


def torn(change: Change) -> Iterator[tuple[frozenset[int], str]]:
    """The ways in which a write may be half there."""
    sectors = sectors_of(change) if isinstance(change, Written) else []
    if len(sectors) > 1:
        yield frozenset(sectors[:1]), "the first sector"
        yield frozenset(sectors[1:]), "all sectors but the first"
        yield frozenset(sectors[::2]), "every other sector"


def words(step: Step, record: Record) -> str:
    """A step, for a person."""
    match step:
        case Told():
            return f"the world was told: {' '.join(step.words)}"
        case Named(file=None):
            return f"{step.name} was removed"
        case Named():
            return f"{step.name} was made"
        case Synced(file=None):
            return "the folder was synced"
        case Synced():
            return f"{record.names[step.file or 0]} was synced"
        case _:
            return f"{record.names[step.file]} was given {step}"
