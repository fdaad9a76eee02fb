"""Other processes that have a file open: a proof must not undo what they were told is done."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from duly.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

# Seconds for a process that was killed to be gone.
GOING = 5.0


class ProofProcesses(NamedTuple):
    """The processes of a proof: the prover, and the session of all that it has started."""

    prover: int
    session: int


def refuse_in_use(databases: Collection[Path], ours: ProofProcesses) -> None:
    """Refuse files that another process has open.

    Where the system does not say which process has which file open, none is found.
    """
    until = time.monotonic() + GOING
    while (found := next(users_of(databases, ours), None)) is not None:
        if time.monotonic() > until:
            user, database = found
            raise UsageError(f"{database} is in use by process {user}: stop it, or prove on a copy")
        time.sleep(0.05)


def users_of(databases: Collection[Path], ours: ProofProcesses) -> Iterator[tuple[int, Path]]:
    """The processes that have one of the files open, but for those of the proof."""
    wanted = {os.path.realpath(database): database for database in databases}
    for process in Path("/proc").glob("[0-9]*") if wanted else ():
        number = int(process.name)
        with suppress(OSError):  # it has ended, or belongs to another user
            if number == ours.prover or os.getsid(number) == ours.session:
                continue
            for file in process.glob("fd/*"):
                if (database := wanted.get(link(file))) is not None:
                    yield number, database


def link(file: Path) -> str:
    """Where a link leads; nowhere, where it has gone meanwhile."""
    try:
        return str(file.readlink())
    except OSError:
        return ""
