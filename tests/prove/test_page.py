"""docs/prove.md: its files are files, and its commands say what it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.prove.proofs import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.wide]

PAGE = (ROOT / "docs" / "prove.md").read_text()
FILE = re.compile(r"^```py\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(
    r"^```sh\n(duly prove .*?)\n```\n+```console\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILE.findall(PAGE):
        (tmp_path / name).write_text(text)
    (tmp_path / "points.json").write_text('{"type": "points.earned"}\n')
    return tmp_path


def ran(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=230,
    )


@pytest.mark.parametrize(("command", "told"), SHOWN.findall(PAGE), ids=["wrong", "mended"])
def test_a_command_on_the_page_says_what_it_shows(command: str, told: str, folder: Path) -> None:
    done = ran(folder, "-m", *command.split())

    assert done.stdout == told
    assert done.returncode == (1 if told.startswith("Not") else 0)


def test_the_test_on_the_page_passes(folder: Path) -> None:
    done = ran(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shop.py")

    assert "2 passed" in done.stdout, done.stdout
