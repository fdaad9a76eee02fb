"""An environment for each library, made once under the folder for caches and kept there.

The libraries stay out of duly's own environment: some pin what duly tests with, one needs a newer
Python. What cannot be installed is told, and left out of the run.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.report import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.working.contenders import Library

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / ".cache" / "peers"
READY = "ready"


@dataclass(frozen=True, slots=True)
class Absent:
    """Why a library is not there."""

    reason: str


def python_for(name: str, library: Library | None) -> str | Absent:
    """The interpreter that has the library; without one, our own."""
    if library is None:
        return sys.executable
    base = interpreter(library.python)
    if base is None:
        wanted = ".".join(map(str, library.python))
        return Absent(f"needs Python {wanted} or newer, and none was found on this machine")
    mark = hashlib.sha256(repr((base, library.requirements)).encode()).hexdigest()[:12]
    folder = ENVIRONMENTS / f"{name}-{mark}"
    if not (folder / READY).exists():
        say(f"installing {' and '.join(library.requirements)} into {folder.relative_to(ROOT)}")
        problem = install(base, folder, library)
        if problem:
            return Absent(problem)
    return str(folder / "bin" / "python")


def install(base: str, folder: Path, library: Library) -> str:
    """Make the environment; what went wrong, or nothing."""
    shutil.rmtree(folder, ignore_errors=True)
    python = str(folder / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in ([base, "-m", "venv", str(folder)], [*pip, *library.requirements]):
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            errors = [line for line in ended.stderr.splitlines() if line.startswith("ERROR")]
            shutil.rmtree(folder, ignore_errors=True)
            return f"does not install: {' '.join(errors) or ended.stderr.strip()[-300:]}"
    (folder / READY).touch()
    return ""


def interpreter(least: tuple[int, int]) -> str | None:
    """Our own Python where it will do, else the first on this machine that is new enough."""
    if sys.version_info[:2] >= least:
        return sys.executable
    for candidate in others(least):
        test = f"import sys; sys.exit(sys.version_info[:2] < {least})"
        try:
            ended = subprocess.run([candidate, "-c", test], capture_output=True, check=False)
        except OSError:
            continue
        if ended.returncode == 0:
            return candidate
    return None


def others(least: tuple[int, int]) -> Iterator[str]:
    """Interpreters by name; then those beside ours, where managers of versions keep them."""
    names = [f"python3.{minor}" for minor in range(least[1], least[1] + 4)]
    yield from filter(None, map(shutil.which, names))
    for name in names:
        beside = Path(sys.base_prefix).parent.glob(f"{name.removeprefix('python')}*/bin/{name}")
        yield from map(str, sorted(beside))
