"""mypy and pyright as the user of an application runs them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parents[2]
# Reading the types of SQLAlchemy and Django for the first time takes a while.
PATIENCE = 200.0
Mode = Literal["standard", "strict"]


def check_with_mypy(
    *paths: Path, config: str = "", python: str = sys.executable, here: Path, name: str
) -> list[str]:
    """The complaints of ``mypy --strict``. ``name`` keeps its cache, by what is checked."""
    settings = here / f"{name}.ini"
    settings.write_text(f"[mypy]\nstrict = true\n{config}")
    return check_project_with_mypy(
        *(str(path) for path in paths),
        *("--config-file", str(settings), "--python-executable", python),
        folder=here,
        name=name,
    )


def check_project_with_mypy(
    *arguments: str, folder: Path, name: str, **environment: str
) -> list[str]:
    """The complaints of mypy in a project that has its own settings."""
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context"),
            *("--cache-dir", str(ROOT / ".mypy_cache" / "typed" / name), *arguments),
        ],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    return [line for line in ran.stdout.splitlines() if ": error:" in line]


def check_with_pyright(
    *paths: Path,
    mode: Mode,
    python: str = sys.executable,
    here: Path,
    roots: tuple[Path, ...] = (),
    **rules: bool,
) -> list[str]:
    """The complaints of pyright, by its own rules: the wheel is named basedpyright."""
    settings = here / "pyrightconfig.json"
    settings.write_text(
        json.dumps(
            {
                "typeCheckingMode": mode,
                "pythonVersion": "3.11",
                "include": [str(path) for path in paths],
                "extraPaths": [str(root) for root in roots],
                **rules,
            }
        )
    )
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "basedpyright", "--outputjson"),
            *("--project", str(settings), "--pythonpath", python),
        ],
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    found = json.loads(ran.stdout)
    assert found["summary"]["filesAnalyzed"] > 0, ran.stdout
    return [
        f"{Path(one['file']).name}:{one['range']['start']['line'] + 1}: error: {one['message']}"
        for one in found["generalDiagnostics"]
        if one["severity"] == "error"
    ]


def complained_lines(complaints: list[str]) -> set[int]:
    """The lines that a checker complains about, of a single file."""
    return {int(found[1]) for one in complaints if (found := re.search(r":(\d+):", one))}


def make_bare_environment(folder: Path) -> str:
    """A Python that has duly and nothing else: no ORM, no driver, no HTTP client."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=PATIENCE
    )
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "duly.pth").write_text(f"{ROOT / 'src'}\n")
    return str(folder / "bin" / "python")
