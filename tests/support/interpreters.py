"""Which Pythons a machine has, which of them the tests go to, and an environment for each."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROOT = Path(__file__).parents[2]

# Prints the version of a finished release that can make environments, and nothing otherwise.
PROBE = """\
import ensurepip, sys, venv
if sys.version_info.releaselevel == "final" and sys.implementation.name == "cpython":
    print(*sys.version_info[:3])
"""

Version = tuple[int, ...]
FIRST: Version = (3, 11, 0)  # what pyproject.toml asks for


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that answered."""

    version: Version
    program: Path

    @property
    def series(self) -> str:
        """The version as environments are named, as in 3.12."""
        return f"{self.version[0]}.{self.version[1]}"

    @property
    def release(self) -> str:
        """The version to its patch release, as in 3.11.2."""
        return ".".join(map(str, self.version))


def candidates(environment: Mapping[str, str]) -> list[Path]:
    """Every file that may be a Python: on PATH, pyenv's, uv's, the system's."""
    home = Path.home()
    pyenv = Path(environment.get("PYENV_ROOT") or home / ".pyenv")
    folders = [Path(entry) for entry in environment.get("PATH", "").split(os.pathsep) if entry]
    folders += matching(pyenv, "versions/*/bin")
    folders += matching(home, ".local/share/uv/python/*/bin")
    folders += [Path("/usr/bin"), Path("/usr/local/bin")]
    found = [path for folder in folders for path in matching(folder, "python3.[0-9]*")]
    return list(dict.fromkeys(path for path in found if path.name[8:].isdigit()))


def matching(folder: Path, pattern: str) -> list[Path]:
    """What the folder has; a folder that this user cannot read, such as root's, has nothing."""
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []


def ask(program: Path) -> Interpreter | None:
    """Learn the version by running it: a shim may stand for nothing."""
    try:
        answer = subprocess.run(
            [program, "-I", "-c", PROBE],
            check=True,
            capture_output=True,
            text=True,
            timeout=30,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    version = tuple(map(int, answer.stdout.split()))
    return Interpreter(version, program) if version else None


def newer(found: Iterable[Interpreter], than: Version) -> list[Interpreter]:
    """One interpreter for each later series, the latest of it, oldest series first."""
    chosen: dict[Version, Interpreter] = {}
    for interpreter in sorted(found, key=lambda each: each.version):
        if interpreter.version[:2] > than[:2]:
            chosen[interpreter.version[:2]] = interpreter
    return list(chosen.values())


def allowed(interpreters: Iterable[Interpreter], limit: str) -> list[Interpreter]:
    """Those the limit names; the newest if it names none."""
    names = [name.strip() for name in limit.split(",") if name.strip()]
    found = list(interpreters)
    if not names:
        return found[-1:]
    return [each for each in found if "all" in names or each.series in names]


def oldest(found: Iterable[Interpreter], here: Version, limit: str) -> list[Interpreter]:
    """The oldest release that duly takes, if it is older than this one and the limit has it."""
    names = {name.strip() for name in limit.split(",") if name.strip()}
    taken = [each for each in found if FIRST <= each.version < here]
    chosen = sorted(taken, key=lambda each: each.version)[:1]
    return [each for each in chosen if not names or names & {"all", each.release}]


def environment_for(interpreter: Interpreter, name: str) -> Path:
    """Its environment's Python, installed anew if pyproject.toml is younger."""
    folder = ROOT / f".venv-{name}"
    python, stamp = folder / "bin" / "python", folder / ".installed"
    project = ROOT / "pyproject.toml"
    if stamp.exists() and stamp.stat().st_mtime >= project.stat().st_mtime:
        return python
    print(f"everywhere: making {folder.name}", flush=True)
    subprocess.run([interpreter.program, "-m", "venv", "--clear", folder], check=True)
    pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    subprocess.run([*pip, "--editable", f"{ROOT}[all,dev]"], check=True)
    stamp.touch()
    return python
