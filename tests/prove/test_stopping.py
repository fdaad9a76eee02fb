"""Proofs that are broken off, or hang: whoever writes is ended first, then all is put back."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import duly
from duly.prove.databases import sqlite
from duly.prove.process_cleanup import list_processes

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

SHOP = """
    import os, sqlite3, time
    import duly

    app = duly.Duly("sqlite:///shop.db")
    app.source("shop", provider="standard-webhooks", secret="whsec_" + "A" * 32)


    def opened(name):
        return sqlite3.connect(name, timeout=10, isolation_level=None)


    def begun():
        with open("begun", "a") as file:
            print(os.getpid(), file=file)


    @app.on("shop", "busy")
    def busy():
        opened("audit.db").execute("UPDATE log SET line = 'a case'")
        own = opened("shop.db")
        begun()
        while True:
            own.execute("INSERT INTO orders VALUES ('a case')")


    @app.on("shop", "slow")
    def slow():
        opened("audit.db").execute("UPDATE log SET line = 'a case'")
        begun()
        time.sleep(1000)


    @app.on("shop", "holding")
    def holding():
        own = opened("shop.db")
        own.execute("BEGIN IMMEDIATE")
        own.execute("INSERT INTO orders VALUES ('a case')")
        begun()
        time.sleep(1000)


    @app.on("shop", "leaving")
    def leaving():
        opened("audit.db").execute("UPDATE log SET line = 'a case'")
        if os.fork() == 0:
            os.setsid()
            begun()
            own = opened("shop.db")
            while True:
                own.execute("INSERT INTO orders VALUES ('a case')")
        while not os.path.exists("begun"):
            time.sleep(0.01)
"""
# So large that putting it back takes a while.
LARGE = 30_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(textwrap.dedent(SHOP))
    for type in ("busy", "slow", "holding", "leaving"):
        (tmp_path / f"{type}.json").write_text(f'{{"type": "{type}"}}')
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
        connection.execute("CREATE TABLE orders (line TEXT)")
    with closing(sqlite3.connect(tmp_path / "audit.db")) as connection, connection:
        connection.execute("CREATE TABLE log (line TEXT)")
        connection.execute("INSERT INTO log VALUES ('precious')")
        connection.execute("CREATE TABLE pictures AS SELECT zeroblob(?) AS picture", [LARGE])
    return tmp_path


def begun(folder: Path, type: str, *options: str) -> subprocess.Popen[str]:
    """A proof whose handler is at work."""
    words = [sys.executable, "-m", "duly", "prove", "shop:app", "--event", f"{type}.json", *options]
    proof = subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True)
    while not (folder / "begun").exists() and proof.poll() is None:
        time.sleep(0.01)
    return proof


def lines(folder: Path) -> tuple[list[str], list[str]]:
    """What is in both files."""
    with closing(sqlite3.connect(folder / "shop.db")) as shop:
        orders = [line for (line,) in shop.execute("SELECT line FROM orders")]
    with closing(sqlite3.connect(folder / "audit.db")) as audit:
        return orders, [line for (line,) in audit.execute("SELECT line FROM log")]


def left(folder: Path) -> set[str]:
    """What a proof has left behind."""
    return {path.name for path in folder.iterdir() if "duly-prove" in path.name}


def are_gone(folder: Path) -> bool:
    """Whether every process that wrote down its number has ended."""
    numbers = {int(line) for line in (folder / "begun").read_text().split()}
    return numbers.isdisjoint(one.number for one in list_processes())


@pytest.mark.parametrize("type", ["busy", "leaving"])
def test_whoever_writes_is_ended_before_anything_is_put_back(type: str, folder: Path) -> None:
    proof = begun(folder, type)
    proof.send_signal(signal.SIGINT)
    _, told = proof.communicate(timeout=100)

    assert lines(folder) == ([], ["precious"])
    assert are_gone(folder)
    assert (proof.returncode, left(folder)) == (130, set())
    assert "the database is as it was" in told


def test_ctrl_c_again_and_again_breaks_off_nothing_that_is_put_back(folder: Path) -> None:
    proof = begun(folder, "slow")
    while proof.poll() is None:
        proof.send_signal(signal.SIGINT)
        time.sleep(0.005)
    proof.communicate()

    assert lines(folder) == ([], ["precious"])
    assert left(folder) == set()
    # The last of them may have come when the proof was over.
    assert proof.returncode in (130, -signal.SIGINT)


def test_a_handler_that_hangs_with_a_lock_is_ended_in_time(folder: Path) -> None:
    proof = begun(folder, "holding", "--patience", "5")
    _, told = proof.communicate(timeout=60)

    assert "took longer than 5 seconds" in told
    assert lines(folder) == ([], ["precious"])
    assert are_gone(folder)
    assert (proof.returncode, left(folder)) == (2, set())


def test_a_file_that_stays_locked_is_not_waited_for_without_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY", 0.1)
    with closing(sqlite3.connect(folder / "audit.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(duly.errors.UsageError, match="another process has locked"):
            sqlite.copy_database(folder / "shop.db", folder / "audit.db")
