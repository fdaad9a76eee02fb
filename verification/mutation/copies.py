"""Copies of the sources, in which something is wrong on purpose; never the sources themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from verification.mutation.patching import Change

ROOT = Path(__file__).parents[2]
# What the commands need; what is not there yet is left out.
COPIED = ("src", "tests", "verification", "examples", "pyproject.toml")
LEFT_OUT = shutil.ignore_patterns("__pycache__", ".*")
# Compiled once, in the first copy, and not by every command of every copy; pytest does so itself.
COMPILED = ("src", "verification")
WHERE = "import importlib.util; print(importlib.util.find_spec('duly').origin)"


class WrongCopy(Exception):
    """The command would test other sources than those that were changed."""


class Copy:
    """The sources in a folder of their own."""

    def __init__(self, folder: Path, around: Mapping[str, str]) -> None:
        self.folder, self._around = folder, around
        # In front of everything else: the interpreter may have duly installed, even as a link.
        paths = os.pathsep.join((str(folder / "src"), str(folder)))
        # A test may be what runs this, and pytest tells its children that they are inside.
        plain = {name: value for name, value in around.items() if not name.startswith("PYTEST_")}
        # pytest leaves out what a test failed with where a line has no room for it.
        self.environment = {**plain, "PYTHONPATH": paths, "COLUMNS": "1000"}

    def copied(self, folder: Path) -> Copy:
        """The same in another folder."""
        shutil.copytree(self.folder, folder)
        return Copy(folder, self._around)

    def change(self, changes: Sequence[Change]) -> None:
        """Put the defect in."""
        for change in changes:
            path = self.folder / change.path
            path.write_text(change.changed(self.folder))
            for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
                compiled.unlink()

    def refuse_wrong(self) -> None:
        """Make sure that this copy is what a command would import."""
        asked = [sys.executable, "-c", WHERE]
        found = subprocess.run(
            asked, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=True
        ).stdout.strip()
        if not Path(found).is_relative_to(self.folder):
            raise WrongCopy(f"duly would be imported from {found}, not from {self.folder}")

    def remove(self) -> None:
        """Take it away."""
        shutil.rmtree(self.folder, ignore_errors=True)


def first_copy(folder: Path, around: Mapping[str, str]) -> Copy:
    """The sources as they are, compiled; ``around`` is the environment of what runs in it."""
    folder.mkdir()
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=LEFT_OUT)
        elif (ROOT / name).exists():
            shutil.copy2(ROOT / name, folder / name)
    there = [name for name in COMPILED if (folder / name).exists()]
    subprocess.run(
        [sys.executable, "-m", "compileall", "-q", "-j", "2", *there], cwd=folder, check=False
    )
    copy = Copy(folder, around)
    copy.refuse_wrong()
    return copy


def copy_of(first: Copy, folder: Path, changes: Sequence[Change]) -> Copy:
    """Another copy, with a defect in it."""
    copy = first.copied(folder)
    copy.change(changes)
    copy.refuse_wrong()
    return copy
