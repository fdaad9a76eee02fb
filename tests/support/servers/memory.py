"""A folder in memory for all that a run writes, on a machine that has the memory.

Servers and tests sync every commit, and on a disk most of a commit's time is the disk's. In memory
a sync costs nothing, a database is cloned in a tenth of the time, and no test sees a difference:
who is killed loses no more than on a disk, and nobody pulls the plug. TMPDIR, where it is set, has
the last word.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from .running import kept

SHARED = Path("/dev/shm")
CHOSEN = "TMPDIR"  # what tempfile, and so pytest, goes by
ENOUGH = 4 << 30  # bytes; the suite writes about one GiB, and the rest is for the processes


@contextmanager
def temporary_folder(environment: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield the variables that lead to a new folder in memory, or none; remove it at the end."""
    if environment.get(CHOSEN) or not roomy(SHARED):
        yield {}
        return
    folder = Path(tempfile.mkdtemp(prefix="duly-", dir=SHARED))
    folder.chmod(0o711)  # servers run as another account, in folders of their own below
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        with kept(folder):
            yield {CHOSEN: str(folder)}
    finally:
        tempfile.tempdir = before


def roomy(folder: Path) -> bool:
    """Whether the folder lies in memory, and there is enough of it."""
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return False
    return min(shutil.disk_usage(folder).free, available_memory()) >= ENOUGH


def available_memory() -> int:
    """Bytes that may be used without pushing others out; 0 where nobody says so."""
    told = Path("/proc/meminfo")
    found = (
        re.search(r"^MemAvailable: +(\d+) kB", told.read_text(), re.M) if told.exists() else None
    )
    return int(found[1]) * 1024 if found else 0
