"""A disk that keeps what was synced, and of the rest whatever it likes."""

from __future__ import annotations

from dataclasses import dataclass, field

from verification.power_loss.record import Named, Resized, Step, Synced, Written

# The unit in which disks write: a sector is there or not.
SECTOR = 512
Change = Written | Resized


@dataclass(frozen=True, slots=True)
class Kept:
    """A change that reached the disk; of a write maybe only some of its sectors, by number."""

    change: Change
    sectors: frozenset[int] | None = None


@dataclass(slots=True)
class Disk:
    """What is safe, and what is on its way.

    Args:
        files: the content of each file that is safe.
        names: which names lead to which files, safely.
        changes: what was written to files and not synced, in order.
        renamings: what was done to names and not synced, in order.
        syncs: how many changes and renamings are safe: tells two disks apart.
    """

    files: dict[int, bytearray] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    renamings: list[Named] = field(default_factory=list)
    syncs: int = 0

    def take(self, step: Step) -> None:
        """One step of a record."""
        match step:
            case Written() | Resized():
                self.changes.append(step)
            case Named():
                self.renamings.append(step)
            case Synced(file=None):
                safe = [one for one in self.renamings if one.ended < step.began]
                self.renamings = [one for one in self.renamings if one.ended >= step.began]
                rename(self.names, safe)
                self.syncs += len(safe)
            case Synced():
                self._sync(step)
            case _:
                return

    def _sync(self, step: Synced) -> None:
        left = []
        for change in self.changes:
            if change.file == step.file and change.ended < step.began:
                apply(self.files.setdefault(change.file, bytearray()), Kept(change))
                self.syncs += 1
            else:
                left.append(change)
        self.changes = left

    def after_a_cut(self, kept: list[Kept], renamings: list[Named]) -> dict[str, bytes]:
        """The files as the disk has them if these of the changes on their way reached it."""
        names = dict(self.names)
        rename(names, renamings)
        contents = {file: bytearray(self.files.get(file, b"")) for file in names.values()}
        for one in kept:
            if one.change.file in contents:
                apply(contents[one.change.file], one)
        return {name: bytes(contents[file]) for name, file in names.items()}


def rename(names: dict[str, int], renamings: list[Named]) -> None:
    """Names come and go."""
    for one in renamings:
        if one.file is None:
            names.pop(one.name, None)
        else:
            names[one.name] = one.file


def apply(content: bytearray, kept: Kept) -> None:
    """One change to the bytes of a file."""
    change = kept.change
    if isinstance(change, Resized):
        del content[change.size :]
        content.extend(bytes(change.size - len(content)))
        return
    for start, piece in pieces(change, kept.sectors):
        content.extend(bytes(max(start + len(piece) - len(content), 0)))
        content[start : start + len(piece)] = piece


def pieces(change: Written, sectors: frozenset[int] | None) -> list[tuple[int, bytes]]:
    """The parts of a write that reached the disk, each with its place in the file."""
    if sectors is None:
        return [(change.offset, change.content)]
    end = change.offset + len(change.content)
    found = []
    for sector in sorted(sectors):
        start, stop = max(sector * SECTOR, change.offset), min((sector + 1) * SECTOR, end)
        found.append((start, change.content[start - change.offset : stop - change.offset]))
    return found


def sectors_of(change: Written) -> list[int]:
    """The sectors of its file that a write touches."""
    end = change.offset + len(change.content)
    return list(range(change.offset // SECTOR, (end - 1) // SECTOR + 1))
