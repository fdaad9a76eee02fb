"""The SQLite files of a proof, and a copy of each as it was before.

A list of them lies beside duly's own file while a proof lasts, locked by the prover. A list without
a lock was left by a proof that was ended in the middle. Its copies are not restored: the files may
have been used since, and that work would be lost.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from duly.core.errors import UsageError
from duly.prove.databases.sqlite import original_copy_path, remove_database

if TYPE_CHECKING:
    from collections.abc import Iterator

LIST = ".duly-prove"


@contextmanager
def hold_list(database: Path) -> Iterator[Path]:
    """The list of a proof of this database, locked against other proofs.

    It stays where something on it could not be put back.
    """
    path = database.with_name(f"{database.name}{LIST}")
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"another proof is using {database}: wait until it is over") from None
        refuse_unfinished_proof(path)
        file.truncate(0)
        try:
            yield path
        finally:
            if not read_list(path):
                path.unlink()


def refuse_unfinished_proof(path: Path) -> None:
    """Refuse where a proof was ended in the middle: only the user knows which state is right."""
    left = read_list(path)
    if left:
        told = "; ".join(f"{file} (before: {original_copy_path(file)})" for file in left)
        raise UsageError(
            f"a proof was ended in the middle and left this as one of its cases made it: {told}. "
            "Move the state before over it, or remove that, whichever you want to keep; then "
            f"remove {path}"
        )


def read_list(path: Path) -> list[Path]:
    """The files on a list whose state was kept."""
    return [file for file in listed_files(path) if original_copy_path(file).exists()]


def listed_files(path: Path) -> list[Path]:
    """Every file that is on a list; the last line may have been cut short by a kill."""
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return list(dict.fromkeys(Path(json.loads(line)) for line in lines))


def keep_original(file: Path, path: Path) -> None:
    """Keep the state of a file that is not on the list yet, and put it there.

    A copy of it that is there all the same holds what an earlier proof found, or another one at
    this moment. It is never written over: it may be all that is left of the file.
    """
    copy = original_copy_path(file)
    if copy.exists():
        raise UsageError(
            f"{copy} is there already: another proof is using {file}, or one was ended in the "
            "middle and left it as one of its cases made it. Wait; or move the state before over "
            "it, or remove that, whichever you want to keep"
        )
    with path.open("a") as told:
        told.write(f"{json.dumps(str(file))}\n")
    # A process that is killed meanwhile leaves a part that does not look like the whole.
    part = partial_copy_path(file)
    remove_database(part)
    part.touch(mode=0o600)  # empty: there was no file
    for companion in ("", "-wal", "-journal"):
        if Path(f"{file}{companion}").exists():
            copy_durably(Path(f"{file}{companion}"), Path(f"{part}{companion}"))
    for companion in ("-wal", "-journal", ""):  # with the last of them it counts
        if Path(f"{part}{companion}").exists():
            Path(f"{part}{companion}").rename(f"{copy}{companion}")


def partial_copy_path(file: Path) -> Path:
    """Where the state of a file is while it is being copied."""
    return original_copy_path(file).with_name(f"{original_copy_path(file).name}-part")


def copy_durably(source: Path, target: Path) -> None:
    """Copy a file, its mode included, down to the disk."""
    shutil.copy(source, target)
    with target.open("rb") as file:
        os.fsync(file)


def remove_partial_copies(path: Path) -> None:
    """Remove what unfinished copies left."""
    for file in listed_files(path):
        remove_database(partial_copy_path(file))
