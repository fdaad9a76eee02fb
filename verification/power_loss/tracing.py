"""Runs a program under strace, and reads what it asked of the kernel, call by call.

The kernel's own side of the calls is what the real sqlite3 of this Python really wrote and synced,
whatever copy of SQLite it is linked to.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.servers.installing import from_debian
from tests.support.servers.running import Missing

from verification.power_loss.unproven import Unproven

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

# All that can change a file or tell somebody something. What is not understood is refused.
WRITING = ("write", "writev", "pwrite64", "pwritev", "pwritev2")
SENDING = ("sendto", "sendmsg", "sendmmsg")
SIZING = ("ftruncate", "truncate", "fallocate")
SYNCING = ("fsync", "fdatasync")
OPENING = ("open", "openat", "openat2", "creat")
REMOVING = ("unlink", "unlinkat", "rmdir")
MOVING = ("rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat")
NAMING = (*OPENING, *REMOVING, *MOVING, "mkdir", "mkdirat")
OTHERS = ("copy_file_range", "sendfile", "splice", "sync_file_range", "mmap")
TRACED = (*WRITING, *SENDING, *SIZING, *SYNCING, *NAMING, *OTHERS)
# More than any single write of SQLite's; a longer one is refused.
LONGEST = 1 << 20
# All processes, whole strings in hexadecimal, and the name of each file behind its number.
OPTIONS = (
    *("-f", "--seccomp-bpf", "-qq", "-y", "-xx", "-s", str(LONGEST), "-e", "signal=none"),
    *("-e", f"trace={','.join(TRACED)}"),
)

WHOLE = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\d+|\?|0x[0-9a-f]+)(.*)")
BEGUN = re.compile(r"(\d+) +(\w+)\((.*) <unfinished \.\.\.>")
RESUMED = re.compile(r"(\d+) +<\.\.\. (\w+) resumed>(.*)\) += (-?\d+|\?|0x[0-9a-f]+)(.*)")
BYTES = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
PLACE = re.compile(r"(?:\d+|AT_FDCWD)<((?:\\x[0-9a-f]{2})*)>")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the kernel.

    Args:
        name: which.
        arguments: as strace shows them.
        result: what it returned; negative where it failed.
        began: when, as the number of a line.
        ended: the same.
    """

    name: str
    arguments: str
    result: int
    began: int
    ended: int

    @property
    def place(self) -> str:
        """The path, or the socket, of the first file that is named by its number."""
        found = PLACE.search(self.arguments)
        return "" if found is None else plain(found[1]).decode()

    @property
    def texts(self) -> list[bytes]:
        """Every text of the arguments, whole."""
        found = []
        for one in BYTES.finditer(self.arguments):
            if one[2]:
                raise Unproven(f"line {self.began}: {self.name} with more than {LONGEST} bytes")
            found.append(plain(one[1]))
        return found

    @property
    def last_number(self) -> int:
        """The last of the arguments: the offset of a write, the size of a truncation."""
        return int(self.arguments.rpartition(",")[2])


def plain(text: str) -> bytes:
    """Bytes from their hexadecimal form."""
    return bytes.fromhex(text.replace("\\x", ""))


def find_strace() -> str | Missing:
    """The program, installed if it can be."""
    if shutil.which("strace") is None:
        missing = from_debian("strace")
        if missing is not None:
            return missing
    strace = shutil.which("strace") or "strace"
    tried = subprocess.run(
        [strace, *OPTIONS, "-o", os.devnull, "true"], check=False, capture_output=True, text=True
    )
    if tried.returncode:
        return Missing("strace", f"it may not watch a program here: {tried.stderr.strip()[:200]}")
    return strace


def traced(
    strace: str, trace: Path, command: Sequence[str], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a program and all that it starts, and leave their calls in a file."""
    return subprocess.run(
        [strace, *OPTIONS, "-o", str(trace), *command],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )


def calls(lines: Iterable[str]) -> Iterator[Call]:
    """The calls that ended, in the order in which they ended."""
    open_calls: dict[str, tuple[str, str, int]] = {}
    for number, line in enumerate(lines, 1):
        if (begun := BEGUN.match(line)) is not None:
            open_calls[begun[1]] = (begun[2], begun[3], number)
        elif (resumed := RESUMED.match(line)) is not None:
            name, first, began = open_calls.pop(resumed[1])
            yield Call(name, first + resumed[3], returned(resumed[4]), began, number)
        elif (whole := WHOLE.match(line)) is not None:
            yield Call(whole[2], whole[3], returned(whole[4]), number, number)
        elif "+++" not in line and "---" not in line:
            raise Unproven(f"line {number} of the record is not a call: {line[:80]}")


def returned(text: str) -> int:
    """What a call returned; a call that never did has failed."""
    return -1 if text == "?" else int(text, 0)
