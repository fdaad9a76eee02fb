"""What storms have found, each as small as it can be."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import duly
from tests.demo.storms import COMMAND

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

SHOP = """
import duly

app = duly.Duly("sqlite:///shop.db")


@app.job()
def work(job):
    return None
"""


@pytest.mark.parametrize("command", ["worker", "relay"])
def test_one_that_is_told_to_end_before_it_could_begin_has_not_failed(
    command: str, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    duly.store(f"sqlite:///{tmp_path}/shop.db").open()
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        process = subprocess.Popen(
            [*COMMAND, command, "shop:app"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        assert any("cannot start yet" in line for line in process.stderr)

        process.send_signal(signal.SIGTERM)

        _, errors = process.communicate()
        assert process.returncode == 0, errors
