"""A record: what was written, synced and said, in the order in which it happened."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from verification.power_loss.tracing import NAMING, SENDING, SIZING, SYNCING, WRITING, Call, calls
from verification.power_loss.unproven import Unproven

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

# Shared memory that SQLite makes anew after a crash; nothing in it is ever synced.
SHARED_MEMORY = "-shm"
# What the kernel says of an open file that has lost its name.
NAMELESS = " (deleted)"
STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
EVENT = re.compile(rb'"event": "([^"]+)"')


@dataclass(frozen=True, slots=True)
class Written:
    """Bytes were handed to the kernel; the disk may have any of their sectors, or none."""

    file: int
    offset: int
    content: bytes
    ended: int

    def __str__(self) -> str:
        return f"{len(self.content)} bytes at {self.offset}"


@dataclass(frozen=True, slots=True)
class Resized:
    """A file was cut off, or grew."""

    file: int
    size: int
    ended: int

    def __str__(self) -> str:
        return f"its size of {self.size}"


@dataclass(frozen=True, slots=True)
class Named:
    """A name in the folder leads to a file, or to none any more."""

    name: str
    file: int | None
    ended: int


@dataclass(frozen=True, slots=True)
class Synced:
    """What had ended when the sync began is on the disk: of one file, or the folder's names."""

    file: int | None
    began: int


@dataclass(frozen=True, slots=True)
class Told:
    """Somebody outside was told something, and will not forget it."""

    words: tuple[str, ...]


Step = Written | Resized | Named | Synced | Told


@dataclass(frozen=True, slots=True)
class Record:
    """The steps in order, and the names of the files that they speak of."""

    steps: list[Step]
    names: dict[int, str]

    @property
    def told(self) -> list[tuple[str, ...]]:
        """Everything that was told, in order."""
        return [step.words for step in self.steps if isinstance(step, Told)]


def read_record(trace: Path, folder: Path) -> Record:
    """The record of what happened to the files of ``folder/disk``, and was told to the world."""
    with trace.open() as lines:
        return Reader(folder).read(calls(lines))


class Reader:
    """Turns calls into steps; refuses what it does not understand."""

    def __init__(self, folder: Path) -> None:
        self._disk = str(folder / "disk")
        self._world = str(folder / "world")
        self._steps: list[tuple[int, Step]] = []
        self._names: dict[int, str] = {}
        # The file behind each name now, and the last that each name has lost.
        self._files: dict[str, int] = {}
        self._lost: dict[str, int] = {}
        # When each socket was last given the first line of an answer, and with which status.
        self._answers: dict[str, tuple[int, int]] = {}
        self._kinds: dict[str, Callable[[Call], None]] = {
            **dict.fromkeys(WRITING, self._write),
            **dict.fromkeys(SENDING, self._send),
            **dict.fromkeys(SIZING, self._resize),
            **dict.fromkeys(SYNCING, self._sync),
            **dict.fromkeys(NAMING, self._name),
        }

    def read(self, made: Iterable[Call]) -> Record:
        """All steps. A write counts from its beginning, and a sync from its end."""
        for call in made:
            if call.result >= 0:
                self._kinds.get(call.name, self._other)(call)
        self._steps.sort(key=lambda one: one[0])
        return Record([step for _, step in self._steps], self._names)

    def _add(self, line: int, step: Step) -> None:
        self._steps.append((line, step))

    def _file(self, path: str) -> int | None:
        """The file that a path stands for; None where it is no file that lasts."""
        if not path.startswith(self._disk + "/") or SHARED_MEMORY in path:
            return None
        if path.endswith(NAMELESS):
            return self._lost[path.removesuffix(NAMELESS)]
        return self._files[path]

    def _write(self, call: Call) -> None:
        if call.place == self._world:
            for line in b"".join(call.texts).decode().splitlines():
                self._add(call.began, Told(tuple(line.split(" "))))
        if call.place.startswith("socket:"):
            self._send(call)
        file = self._file(call.place)
        if file is None:
            return
        if call.name != "pwrite64":
            raise Unproven(f"line {call.began}: {call.name} into {call.place} says no offset")
        content = call.texts[0][: call.result]
        self._add(call.began, Written(file, call.last_number, content, call.ended))

    def _send(self, call: Call) -> None:
        """An answer is given when its first byte is; who it is about stands further behind."""
        said = b"".join(call.texts)
        if (status := STATUS.match(said)) is not None:
            self._answers[call.place] = (call.began, int(status[1]))
        if (event := EVENT.search(said)) is not None:
            began, number = self._answers.get(call.place, (call.began, 0))
            if 200 <= number < 300:
                self._add(began, Told(("answered", event[1].decode())))

    def _resize(self, call: Call) -> None:
        file = self._file(call.place)
        if file is None:
            return
        if call.name != "ftruncate":
            raise Unproven(f"line {call.began}: {call.name} of {call.place}")
        self._add(call.began, Resized(file, call.last_number, call.ended))

    def _sync(self, call: Call) -> None:
        if call.place == self._disk:
            self._add(call.ended, Synced(None, call.began))
        elif (file := self._file(call.place)) is not None:
            self._add(call.ended, Synced(file, call.began))

    def _name(self, call: Call) -> None:
        path = call.texts[0].decode()
        if not path.startswith(self._disk + "/") or path.endswith(SHARED_MEMORY):
            return
        if call.name == "openat" and "O_TRUNC" not in call.arguments:
            if "O_CREAT" in call.arguments and path not in self._files:
                file = self._files[path] = len(self._names)
                self._names[file] = path.rpartition("/")[2]
                self._add(call.began, Named(self._names[file], file, call.ended))
        elif call.name == "unlink":
            file = self._lost[path] = self._files.pop(path)
            self._add(call.began, Named(self._names[file], None, call.ended))
        else:
            raise Unproven(f"line {call.began}: {call.name} of {path}")

    def _other(self, call: Call) -> None:
        """A map of a file could be written to unseen; the rest is not used by SQLite."""
        shared = "MAP_SHARED" in call.arguments and "PROT_WRITE" in call.arguments
        if self._file(call.place) is not None and (call.name != "mmap" or shared):
            raise Unproven(f"line {call.began}: {call.name} of {call.place}")
