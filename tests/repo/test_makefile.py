"""What `make` installs, and from which Python, told by a dry run in a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.interpreters import ROOT

if TYPE_CHECKING:
    from pathlib import Path

FULL, SERVING = "--editable '.[all,dev]'", "--editable '.[serve,http]'"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout that was never set up."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def made(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run make there, with PATH leading to the system's programs only."""
    return subprocess.run(
        ["make", *words],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def set_up(folder: Path, stamp: str) -> None:
    """Leave what an installation leaves; pyproject.toml is older."""
    (folder / ".venv").mkdir(exist_ok=True)
    (folder / ".venv" / stamp).touch()
    os.utime(folder / "pyproject.toml", (0, 0))


@pytest.mark.parametrize("target", ["run", "demo"])
def test_serving_installs_only_what_serving_needs(folder: Path, target: str) -> None:
    told = made(folder, "-n", target).stdout
    assert SERVING in told
    assert FULL not in told


@pytest.mark.parametrize("target", ["run", "demo"])
@pytest.mark.parametrize("stamp", [".installed", ".serving"])
def test_serving_installs_nothing_where_it_is_there(folder: Path, target: str, stamp: str) -> None:
    set_up(folder, stamp)
    told = made(folder, "-n", target).stdout
    assert "pip install" not in told
    assert f"duly {'serve' if target == 'run' else target}" in told


@pytest.mark.parametrize("target", ["test", "test-quick", "test-wide", "check"])
def test_the_tests_install_all_they_need_also_after_serving(folder: Path, target: str) -> None:
    set_up(folder, ".serving")
    assert FULL in made(folder, "-n", target).stdout


def test_serving_follows_a_change_of_what_is_needed(folder: Path) -> None:
    set_up(folder, ".serving")
    os.utime(folder / "pyproject.toml")
    os.utime(folder / ".venv" / ".serving", (1, 1))
    assert SERVING in made(folder, "-n", "run").stdout


@pytest.mark.parametrize("name", ["locked", "x" * 300])
def test_a_folder_of_pythons_that_cannot_be_read_is_passed_over(folder: Path, name: str) -> None:
    pythons = folder / name
    if name == "locked":
        pythons.mkdir(mode=0)
    (folder / "show.mk").write_text("include Makefile\nshow:\n\t@$(find_python); echo $$recent\n")
    here = f"{os.path.dirname(sys.executable)}:/usr/bin:/bin"  # noqa: PTH120
    told = made(folder, "-f", "show.mk", "show", PATH=here, PYENV_ROOT=str(pythons))
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith("python")


def test_a_python_that_is_named_is_the_only_one_tried(folder: Path) -> None:
    (folder / "show.mk").write_text("include Makefile\nshow:\n\t@$(find_python); echo $$recent\n")
    told = made(folder, "-f", "show.mk", "show", "PYTHON=/no/such/python")
    assert told.returncode != 0
    assert "no Python 3.11 or newer found: install one, or name it with PYTHON=" in told.stderr


def test_every_change_is_tried_as_a_plain_user_with_the_systems_python() -> None:
    steps = (ROOT / ".ci" / "run").read_text().splitlines()
    assert ".ci/plain-user" in steps
    script = ROOT / ".ci" / "plain-user"
    assert os.access(script, os.X_OK)
    assert 'start=(env -i su - "$user" -c)' in script.read_text()
