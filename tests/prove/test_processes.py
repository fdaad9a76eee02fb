"""How the processes of a proof come about, and how they end."""

from __future__ import annotations

import multiprocessing
import sqlite3
import textwrap
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import duly
from duly.prove.asks import EventAsk
from duly.prove.case_runner import ProofRequest
from duly.prove.clean_interpreter import ImportableApp
from duly.prove.loader import by_name, from_object
from duly.prove.mistakes import DELTA, NEW_KEY
from duly.prove.prover import ProofOptions, prove_handler

if TYPE_CHECKING:
    from pathlib import Path

    from duly.prove.proof import Verdict

pytestmark = pytest.mark.slow

SHOP = """
    import os
    import sqlite3
    import time
    import duly

    with open("imports", "a") as file:
        print(os.getpid(), file=file)

    connection = sqlite3.connect("shop.db", check_same_thread=False, isolation_level=None)
    connection.execute("CREATE TABLE IF NOT EXISTS accounts (id INTEGER PRIMARY KEY, n INTEGER)")
    connection.execute("INSERT INTO accounts VALUES (7, 0) ON CONFLICT DO NOTHING")
    if os.environ["SHOP_CONNECTION"] == "closed":
        connection.close()

    app = duly.Duly("sqlite:///shop.db")
    app.source("shop", provider="standard-webhooks", secret="whsec_" + "A" * 32)


    @app.on("shop", "points.earned")
    def add():
        own = connection
        if os.environ["SHOP_CONNECTION"] == "closed":
            own = sqlite3.connect("shop.db", isolation_level=None)
        own.execute("UPDATE accounts SET n = n + 1")
        if own is not connection:
            own.close()


    @app.on("shop", "nothing")
    def nothing():
        time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "shop_with_connection.py").write_text(textwrap.dedent(SHOP))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def proof(type: str, only: str, patience: float) -> Verdict:
    wishes = ProofRequest((EventAsk("", f'{{"type": "{type}"}}'.encode()),), only=only)
    load = by_name("shop_with_connection:app")
    return prove_handler(load, wishes, ProofOptions(patience=patience), lambda _: None)


# Four single runs, and one case of two processes; and once to see what there is.
@pytest.mark.parametrize(("kept", "imports"), [("open", 7), ("closed", 1)])
def test_an_application_is_imported_anew_if_its_import_leaves_a_connection_open(
    kept: str, imports: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_CONNECTION", kept)

    verdict = proof("points.earned", "kill:3", 200)

    assert verdict.finding is not None
    assert verdict.finding.mistake.name == DELTA
    assert "accounts.n of id=7 is 2 instead of 1" in verdict.finding.story
    assert len({*(folder / "imports").read_text().split()}) == imports


def test_a_handler_that_hangs_ends_the_proof(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_CONNECTION", "closed")
    with pytest.raises(duly.errors.UsageError, match="took longer than 3 seconds"):
        proof("nothing", "twice", 3)


KEYS = """
    import duly
    import httpx

    app = duly.Duly("sqlite:///shop.db")
    app.source("shop", provider="standard-webhooks", secret="whsec_" + "A" * 32)


    def charge(key):
        httpx.post("https://bank.example/charges", headers={"Idempotency-Key": key})


    @app.on("shop", "hash")
    def by_hash(event):
        charge(str(hash(event.id)))


    @app.on("shop", "event")
    def by_event(event):
        charge(event.id)
"""


@pytest.mark.parametrize(("type", "mistake"), [("hash", NEW_KEY), ("event", None)])
def test_a_key_that_another_process_would_not_make_again_is_found(
    type: str, mistake: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_with_keys.py").write_text(textwrap.dedent(KEYS))
    monkeypatch.chdir(tmp_path)
    wishes = ProofRequest((EventAsk("", f'{{"type": "{type}"}}'.encode()),), only="kill:4")

    verdict = prove_handler(
        ImportableApp("shop_with_keys:app"), wishes, ProofOptions(patience=200), lambda _: None
    )

    assert (verdict.finding and verdict.finding.mistake.name) == mistake


@pytest.mark.parametrize("case", ["kill:4", "pause:1"])
def test_a_handler_dies_or_stops_with_the_child_that_it_has_forked(
    case: str, tmp_path: Path
) -> None:
    path = tmp_path / "shop.db"

    def add() -> None:
        with closing(sqlite3.connect(path, timeout=10)) as own, own:
            own.execute("UPDATE accounts SET n = n + 1")

    def handler() -> None:
        child = multiprocessing.get_context("fork").Process(target=add)
        child.start()
        child.join()

    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE accounts (id INTEGER PRIMARY KEY, n INTEGER)")
        connection.execute("INSERT INTO accounts VALUES (7, 0)")
    app = duly.Duly(f"sqlite:///{path}")
    app.source("shop", provider="standard-webhooks", secret="whsec_" + "A" * 32)
    app.on("shop", "points.earned", name="handler")(handler)
    wishes = ProofRequest((EventAsk("", b'{"type": "points.earned"}'),), only=case)

    verdict = prove_handler(from_object(app), wishes, ProofOptions(patience=30), lambda _: None)

    app.close()
    assert verdict.finding is not None
    assert verdict.finding.mistake.name == DELTA
