"""Where a server listens, and which process it is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from duly.core.errors import UsageError


class Server(NamedTuple):
    """Where a server listens: a host and a port, or the folder of a socket and a port."""

    host: str
    port: int


def server_pid(cluster: Path) -> int:
    """The process of the server that serves this folder."""
    try:
        pid = int((cluster / "postmaster.pid").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        pid = 0
    # A server works in its folder. The file may be older than the server, and the number another's.
    place = Path(f"/proc/{pid}/cwd")
    if pid == 0 or (sys.platform == "linux" and not same_folder(place, cluster)):
        raise UsageError(f"no server of this machine serves {cluster}, as far as can be seen")
    return pid


def same_folder(one: Path, other: Path) -> bool:
    """Whether both lead to one folder."""
    try:
        return one.samefile(other)
    except OSError:
        return False
