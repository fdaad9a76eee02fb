"""Plants bugs: each in a copy of its own, some at a time, and one copy without any."""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tests.support.servers.memory import temporary_folder

from verification.mutation.copies import Copy, copy_of, first_copy
from verification.mutation.findings import broke
from verification.mutation.trials import Runs, Verdict, judged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from verification.mutation.shelf import Mutant
    from verification.mutation.trials import Run

T = TypeVar("T")
RED = "this command is red without any bug, so it says nothing about one: mend that first"
MISSED = "nobody noticed: the command ended as if nothing were wrong"
HUNG = "the command did not end; what it said last"
OTHERWISE = "the command failed, but found nothing that says {phrase!r}; what it said last"
BREAKS = "the patch breaks duly ({how}) instead of making it wrong; what the command said last"


class Field(NamedTuple):
    """Where bugs are planted: a folder, the copy that has none, and who hears of each verdict."""

    folder: Path
    first: Copy
    told: Callable[[Verdict], None]
    runs: Runs

    def plant(self, mutant: Mutant) -> Verdict:
        """One bug, and whether its command finds it."""
        copy = copy_of(self.first, self.folder / mutant.name, mutant.changes)
        try:
            found = self.runs.run(copy, mutant.command)
        finally:
            copy.remove()
        return self._heard(verdict_on(mutant, found))

    def without(self, command: str) -> Verdict:
        """One command where no bug is planted."""
        found = self.runs.run(self.first, command)
        if found.status == 0:
            return self._heard(Verdict("no bug", "green", command, found.seconds))
        told = f"{RED}\n{found.tail()}"
        return self._heard(Verdict("no bug", "red", command, found.seconds, told))

    def _heard(self, verdict: Verdict) -> Verdict:
        self.told(verdict)
        return verdict


def verdict_on(mutant: Mutant, found: Run) -> Verdict:
    """What a command has made of a bug, with what to say about it."""
    judgement = judged(found, mutant)
    told = {
        "missed": MISSED,
        "hung": f"{HUNG}\n{found.tail()}",
        "wrong reason": f"{why_not(mutant, found)}\n{found.tail()}",
    }.get(judgement, "")
    return Verdict(mutant.name, judgement, mutant.command, found.seconds, told)


def why_not(mutant: Mutant, found: Run) -> str:
    """Why a command that failed has not found the bug."""
    how = broke(found.said)
    return BREAKS.format(how=how) if how else OTHERWISE.format(phrase=mutant.phrase)


@contextmanager
def field(told: Callable[[Verdict], None]) -> Iterator[Field]:
    """A folder for the copies and for all that the commands write; in memory where there is room.

    It is gone afterwards, whatever happens.
    """
    with (
        temporary_folder(os.environ) as chosen,
        tempfile.TemporaryDirectory(prefix="duly-mutants-") as name,
    ):
        around, runs = {**os.environ, **chosen}, Runs()
        try:
            yield Field(Path(name), first_copy(Path(name) / "first", around), told, runs)
        except BaseException:
            runs.stop()
            raise


def at_once(place: Field, lanes: int, call: Callable[[T], Verdict], each: list[T]) -> list[Verdict]:
    """Some at a time."""
    with ThreadPoolExecutor(lanes) as pool:
        try:
            return list(pool.map(call, each))
        except BaseException:  # nobody waits for the rest
            pool.shutdown(wait=False, cancel_futures=True)
            place.runs.stop()
            raise


def planted(
    mutants: Sequence[Mutant], told: Callable[[Verdict], None], *, lanes: int, baseline: bool
) -> list[Verdict]:
    """Everything: the commands without a bug, then each bug whose command was green."""
    mutants = longest_first(mutants)
    with field(told) as place:
        commands = list(dict.fromkeys(one.command for one in mutants)) if baseline else []
        without = at_once(place, lanes, place.without, commands)
        red = {one.command for one in without if not one.good}
        sound = [one for one in mutants if one.command not in red]
        return [
            *at_once(place, lanes, place.plant, sound),
            *(Verdict(one.name, "red", one.command) for one in mutants if one.command in red),
        ]


def longest_first(mutants: Sequence[Mutant]) -> list[Mutant]:
    """Those whose commands start servers come first, so that no lane waits for the last of them."""
    return sorted(mutants, key=lambda one: "postgres" not in one.command)
