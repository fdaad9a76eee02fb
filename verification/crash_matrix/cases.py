"""One case, and its name, by which it can be run again."""

from __future__ import annotations

import random
import zlib
from typing import TYPE_CHECKING, NamedTuple

from verification.crash_matrix.faults import FAULTS
from verification.crash_matrix.flows import FLOWS
from verification.crash_matrix.traps import Boundary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from verification.crash_matrix.faults import Fault
    from verification.crash_matrix.traps import Passed

# Statements of a recovery: where it has fewer, it ends by itself, and that is a case as well.
LONGEST = 60
# A statement that a flow comes to more often is struck the first so many times: with every fault
# the first time, and as in the short form after that.
TIMES = 3
MODES = ("sqlite-sync", "sqlite-async", "postgres-sync", "postgres-async", "bouncer-async")


class Case(NamedTuple):
    """A mode, a flow, a boundary of it and a fault."""

    mode: str
    flow: str
    at: Boundary
    fault: str
    # At which of its statements the recovery is killed, too.
    then: int | None = None

    def __str__(self) -> str:
        """What ``--case`` takes."""
        place, number = self.at.name.replace("/", "|"), str(self.at.number)
        named = "/".join((self.mode, self.flow, place, number, self.at.side, self.fault))
        return named if self.then is None else f"{named}+{self.then}"


def case_of(text: str) -> Case:
    """The case of a name."""
    mode, flow, place, number, side, fault = text.split("/")
    fault, _, then = fault.partition("+")
    if side not in ("before", "after") or fault not in FAULTS:
        raise ValueError(text)
    at = Boundary(place.replace("|", "/"), int(number), "before" if side == "before" else "after")
    return Case(mode, flow, at, fault, int(then) if then else None)


def planned(mode: str, flow: str, passed: Iterable[Passed], *, quick: bool) -> Iterator[Case]:
    """The cases of one flow on one store, from the boundaries that it came to."""
    store, colour = mode.split("-")
    most = 1 if quick else TIMES
    for each in passed:
        if each.at.number >= most:
            continue
        fitting = [fault for fault in FAULTS.values() if fits(fault, store, colour, each)]
        without = FLOWS[flow].without + (() if FLOWS[flow].rivals(store) else ("rival",))
        fitting = [fault for fault in fitting if fault.name not in without]
        cases = [Case(mode, flow, each.at, fault.name) for fault in fitting]
        yield from chosen(cases) if quick or each.at.number else cases


def paired(cases: list[Case], number: int, seed: int) -> list[Case]:
    """Some of the kills, each with a recovery that is killed, too."""
    kills = [case for case in cases if case.fault == "kill"]
    dice = random.Random(f"{seed} {kills[0] if kills else ''}")
    return [
        dice.choice(kills)._replace(then=dice.randrange(LONGEST)) for _ in range(number) if kills
    ]


def chosen(cases: list[Case]) -> Iterator[Case]:
    """One case of a boundary: the kill on one side of each statement, another fault on the other.

    Which, is told by the names, so every run takes the same.
    """
    others = [case for case in cases if case.fault != "kill" and FAULTS[case.fault].quick]
    for case in cases:
        if case.fault == "kill" and (not others or case.at.side == killed_side(case.at.name)):
            yield case
            return
    if others:
        yield others[zlib.crc32(str(others[0]).encode()) % len(others)]


def killed_side(name: str) -> str:
    """On which side of a statement the short form kills."""
    return ("before", "after")[zlib.crc32(name.encode()) % 2]


def fits(fault: Fault, store: str, colour: str, passed: Passed) -> bool:
    """Whether a fault makes sense there."""
    if not getattr(fault, store) or colour not in fault.colours:
        return False
    if store == "sqlite" and passed.inside and not fault.inside_sqlite:
        return False
    if passed.driver not in fault.drivers:
        return False
    return fault.before if passed.at.side == "before" else fault.after
