"""`duly prove` on the command line: what it says, to people and to programs, and what it keeps."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import duly
from duly.cli import main
from duly.prove.databases.file_list import LIST
from duly.prove.databases.sqlite import COPY_SUFFIX
from tests.prove.proofs import EVENTS, EXAMPLE

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

APP = f"{EXAMPLE}:app"
POINTS = str(EVENTS / "points.json")


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "shop.db"
    store = duly.store(f"sqlite:///{path}")
    store.migrate()
    store.close()  # or this process would have it open, and a proof in another would be refused
    monkeypatch.setenv("SHOP_DATABASE", str(path))
    return path


def test_a_mistake_is_told_with_a_line_that_shows_it_again(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "failed"
    code = main.main(["prove", APP, "--event", POINTS, "--keep", str(kept), "--only", "kill:4"])

    told = capsys.readouterr()
    assert code == 1
    assert told.out.startswith("Not safe to repeat: delta update outside the transaction.\n")
    assert "accounts.balance of id=7 is 300 instead of 200" in " ".join(told.out.split())
    assert f"Only this case: duly prove {APP} --event {POINTS} --only kill:4" in told.out
    assert "Note: order was not tried" in told.out
    assert max(map(len, told.out.replace(f"Kept: {kept}", "").splitlines())) < 400
    assert "a single run" in told.err
    with closing(sqlite3.connect(kept / "shop.db")) as connection:
        assert connection.execute("SELECT balance FROM accounts").fetchall() == [(300,)]
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT count(*) FROM duly_events").fetchone() == (0,)


def test_a_program_gets_one_document(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    right = main.main(
        ["prove", APP, "--event", str(EVENTS / "payment.json"), "--only", "twice", "--json"]
    )
    passed = json.loads(capsys.readouterr().out)
    wrong = main.main(["prove", APP, "--event", POINTS, "--only", "kill:4", "--json"])
    failed = json.loads(capsys.readouterr().out)

    assert (right, wrong) == (0, 1)
    assert passed["effectively_once"] is None  # of the other cases nothing is known
    assert failed["effectively_once"] is False
    assert passed["tried"] == {"twice": 1}
    assert passed["not_compared"] == ["payments.at"]
    assert failed["finding"]["mistake"] == "delta update outside the transaction"
    assert failed["finding"]["case"] == "kill:4"
    assert failed["again"].endswith("--only kill:4")


def test_outgoing_calls_are_answered_as_the_file_says(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = tmp_path / "answers.json"
    answers.write_text('{"POST https://bank.example/*": {"status": 503}}')
    event = str(EVENTS / "confirmed.json")

    code = main.main(["prove", APP, "--event", event, "--answers", str(answers)])

    assert code == 2
    assert "in the single run the job charge failed: urllib.error.HTTPError: HTTP Error 503" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "what should be proved?"),
        (["--event", POINTS, "--job", "x"], "give one of them"),
        (["--event", POINTS, "--through", "web:api"], "give both"),
        (["--event", POINTS, "--secret-from", "NOBODY_SET_THIS"], "the environment has no"),
        (["--event", POINTS, "--only", "kill:99"], "there is no case kill:99: there are twice"),
        (["--event", POINTS, "--source", "nobody"], "there is no source 'nobody'"),
        (["--event", POINTS, "--answers", POINTS], "an answer has status"),
        (["--event", POINTS, "--keep", POINTS], "is a file, and --keep needs a folder"),
    ],
)
def test_a_command_that_cannot_work_says_what_to_write(
    words: list[str], told: str, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["prove", APP, *words]) == 2
    assert told in capsys.readouterr().err


def test_an_event_that_the_database_knows_cannot_be_the_yardstick(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = duly.Duly(f"sqlite:///{database}")
    app.source("shop", provider="standard-webhooks", secret="whsec_c2hvcC1leGFtcGxlLXNlY3JldA==")
    body = (EVENTS / "points.json").read_bytes()
    sent = duly.sign("standard-webhooks", body, "whsec_c2hvcC1leGFtcGxlLXNlY3JldA==")
    assert app.receive("shop", sent.headers, sent.body).status == 200
    app.close()

    assert main.main(["prove", APP, "--event", POINTS]) == 2
    assert "the database knows it already" in capsys.readouterr().err
    assert main.main(["prove", APP, "--event", POINTS, "--id", "new", "--only", "twice"]) == 0


def test_after_a_proof_that_was_killed_a_person_decides_which_state_is_kept(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER)")
        connection.execute("INSERT INTO accounts VALUES (7, 41)")
    words = [sys.executable, "-m", "duly", "prove", APP, "--event", POINTS]
    running = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    beside = database.with_name(f"{database.name}{COPY_SUFFIX}")
    names = database.with_name(f"{database.name}{LIST}")
    until = time.monotonic() + 100
    while not (names.exists() and names.read_text()) and time.monotonic() < until:
        time.sleep(0.01)
    assert main.main(["prove", APP, "--event", POINTS]) == 2
    assert "another proof is using" in capsys.readouterr().err

    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert main.main(["prove", APP, "--event", POINTS, "--only", "twice"]) == 2

    told = capsys.readouterr().err
    assert "ended in the middle" in told
    assert str(beside) in told
    with closing(sqlite3.connect(beside)) as connection:
        assert connection.execute("SELECT * FROM accounts").fetchall() == [(7, 41)]


HOLDING = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("CREATE TABLE other (id INTEGER)")
print("open", flush=True)
sys.stdin.read()
"""


def test_a_file_that_somebody_has_open_is_left_alone(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [sys.executable, "-c", HOLDING, str(database)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert main.main(["prove", APP, "--event", POINTS]) == 2
        assert f"in use by process {holder.pid}" in capsys.readouterr().err
    assert not database.with_name(f"{database.name}{COPY_SUFFIX}").exists()


def test_a_proof_that_is_told_to_end_puts_back_what_there_was(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER)")
        connection.execute("INSERT INTO accounts VALUES (7, 41)")
    words = [sys.executable, "-m", "duly", "prove", APP, "--event", POINTS]
    running = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    names = database.with_name(f"{database.name}{LIST}")
    until = time.monotonic() + 100
    while not (names.exists() and names.read_text()) and time.monotonic() < until:
        time.sleep(0.01)
    running.send_signal(signal.SIGTERM)
    assert running.wait(100) == 130
    assert not names.exists()
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT * FROM accounts").fetchall() == [(7, 41)]


def test_a_table_that_is_not_there_is_refused(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["prove", APP, "--event", POINTS, "--table", "nosuch"]) == 2
    assert "there is no table nosuch" in capsys.readouterr().err


def test_text_that_is_not_utf_8_is_compared_by_its_bytes(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE legacy (name TEXT)")
        connection.execute("INSERT INTO legacy VALUES (CAST(x'ff6162' AS TEXT))")

    event = str(EVENTS / "payment.json")
    assert main.main(["prove", APP, "--event", event, "--only", "twice"]) == 0


def test_an_error_of_the_proof_itself_is_not_called_a_mistake_of_the_handler(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.create_function("price", 1, lambda net: net * 1.19, deterministic=True)
        connection.execute("CREATE TABLE goods (net REAL, gross REAL AS (price(net)))")
        connection.execute("INSERT INTO goods (net) VALUES (1)")

    assert main.main(["prove", APP, "--event", POINTS, "--only", "twice"]) == 2
    told = capsys.readouterr().err
    assert "says nothing about the handler: OperationalError: " in told
    assert "price" in told


def test_an_event_that_cannot_be_read_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["prove", APP, "--event", "nofile.json"]) == 2
    assert "nofile.json cannot be read" in capsys.readouterr().err
