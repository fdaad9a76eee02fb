"""A file system of its own on an image, and what has reached that image.

The image is the disk: a file that a loop device writes to. What a program wrote and did not sync is
in the machine's memory and not in the image, so that a copy of the image is what is found after the
power was cut. The copy is taken at one moment, or not at all: the device counts its writes, and if
it did one meanwhile the copy is made again.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.servers.running import Missing

from verification.power_loss.unproven import Unproven

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SIZE = 512 * 1024 * 1024
# Nothing is left to be initialised in the background, which would write whenever it likes.
MAKE = ("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", "-J", "size=16")
PROGRAMS = ("mkfs.ext4", "mount", "umount", "losetup", "cp")
# So long may the device go on with what it was given before.
PATIENCE = 30.0
# CLONE_NEWNS, as the kernel calls it.
NEW_MOUNTS = 0x00020000
# Where the numbers of finished writes, of written sectors and of those under way are.
COUNTERS = (4, 6, 8, 15)


def missing() -> Missing | None:
    """Why no image can be mounted here; None where one can."""
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    if lacking:
        return Missing("loop devices", f"no {', '.join(lacking)}")
    if os.geteuid() != 0:
        return Missing("loop devices", "mounting an image needs root")
    if not Path("/dev/loop-control").exists():
        return Missing("loop devices", "there is no /dev/loop-control")
    return None


def make_image(path: Path) -> None:
    """An empty file system in a file."""
    with path.open("wb") as image:
        image.truncate(SIZE)
    run([*MAKE, str(path)])


@contextmanager
def mounted(image: Path, place: Path) -> Iterator[Path]:
    """The image at a place; the device that stands between them, which goes with the mount."""
    place.mkdir(exist_ok=True)
    run(["mount", "-o", "loop,noatime", str(image), str(place)])
    try:
        listed = run(["losetup", "--noheadings", "--output", "NAME", "--associated", str(image)])
        yield Path(listed.split()[0])
    finally:
        run(["umount", str(place)])


def mount_apart() -> None:
    """Mount what follows where nobody else sees it; it is gone with this process, however it ends.

    `os.unshare` is there from Python 3.12 on.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(NEW_MOUNTS) != 0:
        raise Unproven(f"mounts cannot be kept apart: {os.strerror(ctypes.get_errno())}")
    run(["mount", "--make-rprivate", "/"])


def copy_at_one_moment(image: Path, device: Path, copy: Path) -> None:
    """What the image holds now, although the kernel may write to it whenever it likes."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        before = written(device)
        run(["cp", "--sparse=always", str(image), str(copy)])
        if written(device) == before:
            return
    raise Unproven(f"{device} did not stop writing for {PATIENCE:g} s")


def written(device: Path) -> list[str]:
    """How much the device has done so far."""
    numbers = (Path("/sys/block") / device.name / "stat").read_text().split()
    return [numbers[one] for one in COUNTERS]


def run(command: Sequence[str]) -> str:
    """Run a program that must not fail."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise Unproven(f"{command[0]} failed: {done.stderr.strip() or 'no message'}")
    return done.stdout
