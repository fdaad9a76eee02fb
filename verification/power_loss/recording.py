"""Makes a record of the flows, keeps it where a state has to be looked at again, and reads it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.servers.running import Missing

from verification.power_loss.record import Synced, Told, read_record
from verification.power_loss.tracing import find_strace, traced
from verification.power_loss.unproven import Unproven

if TYPE_CHECKING:
    from collections.abc import Iterator

    from verification.power_loss.record import Record

ROOT = Path(__file__).parents[2]
# Ignored by git, removed by `make clean`.
KEPT = ROOT / ".cache" / "power"
TRACE, FOLDER = "trace", "folder"
# What the world hears of in every complete record.
HEARD = {"sends", "answered", "asks", "enqueued", "charge", "call", "mail", "created"}


@dataclass(frozen=True, slots=True)
class Recording:
    """A record, and the folder that holds what it was read from."""

    record: Record
    folder: Path

    def keep(self) -> Path:
        """Put it where it can be read again."""
        if self.folder.resolve().parent == KEPT:
            return self.folder.resolve()
        kept = KEPT / self.folder.name
        kept.mkdir(parents=True, exist_ok=True)
        for name in (TRACE, FOLDER):
            shutil.copy(self.folder / name, kept / name)
        return kept


@contextmanager
def recorded(rounds: int) -> Iterator[Recording | Missing]:
    """Run the flows under strace; the record is gone at the end unless it was kept."""
    strace = find_strace()
    if isinstance(strace, Missing):
        yield strace
        return
    with tempfile.TemporaryDirectory(prefix="duly-power-") as name:
        folder = Path(name).resolve()  # the kernel speaks of files by their real names
        (folder / "disk").mkdir()
        (folder / FOLDER).write_text(str(folder))
        command = [sys.executable, "-m", "verification.power_loss.flows", str(folder), str(rounds)]
        path = os.pathsep.join(one for one in sys.path if one)
        # libuv would send answers through a queue that is shared with the kernel, without a call.
        environment = {**os.environ, "PYTHONPATH": path, "UV_USE_IO_URING": "0"}
        done = traced(strace, folder / TRACE, command, environment)
        if done.returncode:
            said = "\n".join(done.stderr.splitlines()[-15:])
            raise Unproven(f"the recorded program failed ({done.returncode}):\n{said}")
        yield loaded(folder)


def loaded(folder: Path) -> Recording:
    """A record that was made before."""
    if not (folder / TRACE).exists():
        raise Unproven(f"there is no record in {folder}: a run that finds something keeps one")
    record = read_record(folder / TRACE, Path((folder / FOLDER).read_text()))
    refuse_hollow(record)
    return Recording(record, folder)


def refuse_hollow(record: Record) -> None:
    """A record in which nothing happened would prove nothing."""
    told = record.told
    kinds = {words[0] for words in told}
    if not kinds >= HEARD:
        raise Unproven(f"the record has nothing of: {', '.join(sorted(HEARD - kinds))}")
    sent = sum(words[0] == "sends" for words in told)
    answered = sum(words[0] == "answered" for words in told)
    if sent != answered:
        raise Unproven(f"{sent} deliveries were sent, and the record has {answered} answers")
    if not any(isinstance(step, Synced) for step in record.steps):
        raise Unproven("nothing was ever synced")
    if not isinstance(record.steps[-1], Told):
        raise Unproven("the record ends before its flows do")
