"""Who a server runs as and where it may live: never root, and only where that account can go."""

import os
import pwd
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

# A Unix socket's path ends at 107 bytes; the folder gets about 40 of them below this.
LONGEST_PARENT = 60


@dataclass(frozen=True, slots=True)
class Account:
    """An unprivileged user of this machine."""

    name: str
    uid: int
    gid: int


def unprivileged() -> Account | None:
    """The account servers run as, or ``None`` when this process is unprivileged itself.

    PostgreSQL and PgBouncer refuse to run as root. A bare number would not do: initdb looks its
    user up by name.
    """
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall() if entry.pw_uid != 0}
    preferred = [name for name in ("postgres", "nobody") if name in known]
    for name in [*preferred, *known]:
        return Account(name, known[name].pw_uid, known[name].pw_gid)
    raise LookupError("running as root, and no other account exists to run the servers as")


def reachable(path: Path, account: Account | None) -> bool:
    """Whether the account can get to ``path``: every folder on the way lets it through."""
    if account is None:
        return os.access(path, os.R_OK | os.X_OK)
    return all(_lets_through(step, account) for step in [path, *path.parents])


def _lets_through(path: Path, account: Account) -> bool:
    found = path.stat()
    if found.st_uid == account.uid:
        return bool(found.st_mode & stat.S_IXUSR)
    if found.st_gid == account.gid:
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)


def new_folder(name: str, account: Account | None) -> Path:
    """Make an empty private folder that belongs to the account."""
    parents = [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]
    for parent in parents:
        short = len(os.fsencode(parent)) <= LONGEST_PARENT
        if short and os.access(parent, os.W_OK) and reachable(parent, account):
            folder = Path(tempfile.mkdtemp(prefix=f"duly-{name}-", dir=parent))
            hand_over(folder, account)
            return folder
    raise LookupError(f"no folder for {name}: none of {', '.join(map(str, parents))} will do")


def hand_over(path: Path, account: Account | None) -> None:
    """Give one file or folder to the account."""
    if account is not None:
        os.chown(path, account.uid, account.gid)
