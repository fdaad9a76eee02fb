"""SQLite files beside duly's own: each is kept before it is written to, and put back."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import uuid
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.prove.asks import EventAsk
from duly.prove.case_runner import ProofRequest
from duly.prove.databases import open_by_others
from duly.prove.databases.file_list import LIST
from duly.prove.databases.sqlite import COPY_SUFFIX
from duly.prove.loader import from_object
from duly.prove.prover import ProofOptions, prove_handler

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.prove.proof import Verdict

pytestmark = pytest.mark.slow

SECRET = "whsec_" + "A" * 32
SEEN = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="the system does not tell who has a file open"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
        connection.execute("CREATE TABLE orders (id TEXT PRIMARY KEY)")
    with closing(sqlite3.connect(tmp_path / "audit.db")) as connection, connection:
        connection.execute("CREATE TABLE log (line TEXT)")
        connection.execute("INSERT INTO log VALUES ('precious')")
    return tmp_path


def shop(folder: Path, **handlers: Callable[..., Any]) -> duly.Duly:
    app = duly.Duly(f"sqlite:///{folder / 'shop.db'}")
    app.source("shop", provider="standard-webhooks", secret=SECRET)
    for name, handler in handlers.items():
        app.on("shop", name, name=name)(handler)
    return app


def proof(
    app: duly.Duly, *types: str, only: str | None = None, show: Callable[[str], None] | None = None
) -> Verdict:
    asks = tuple(EventAsk("shop", f'{{"type": "{type}"}}'.encode()) for type in types)
    wishes = ProofRequest(asks, only=only)
    return prove_handler(
        from_object(app), wishes, ProofOptions(patience=200), show or (lambda _: None)
    )


def log(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "audit.db")) as connection:
        return [line for (line,) in connection.execute("SELECT line FROM log")]


def written(file: Path, statement: str, *values: str) -> None:
    with closing(sqlite3.connect(file, timeout=10)) as own, own:
        own.execute(statement, values)


def order(event: duly.Event, tx: duly.Tx) -> None:
    tx.execute("INSERT INTO orders VALUES (:id)", id=event.id)


def test_a_file_that_only_a_later_event_uses_is_put_back(folder: Path) -> None:
    def note(event: duly.Event) -> None:
        written(folder / "audit.db", "INSERT INTO log VALUES (?)", event.id)

    verdict = proof(shop(folder, a=order, b=note), "a", "b", only="reordered")

    assert verdict.finding is None
    assert log(folder) == ["precious"]


def test_a_file_that_only_a_repeat_uses_is_compared_and_put_back(folder: Path) -> None:
    def handler(event: duly.Event) -> None:
        try:
            written(folder / "shop.db", "INSERT INTO orders VALUES (?)", event.id)
        except sqlite3.IntegrityError:
            written(folder / "audit.db", "INSERT INTO log VALUES ('again')")

    verdict = proof(shop(folder, a=handler), "a", only="kill:4")

    assert verdict.finding is not None
    assert "log in audit.db has the row (line='again')" in verdict.finding.story
    assert log(folder) == ["precious"]
    assert {path.name for path in folder.iterdir()} == {"shop.db", "audit.db"}


def test_files_whose_names_are_made_anew_are_refused_and_removed(folder: Path) -> None:
    def handler(event: duly.Event, tx: duly.Tx) -> None:
        order(event, tx)
        written(folder / f"{uuid.uuid4().hex}.db", "CREATE TABLE scratch (n)")

    with pytest.raises(duly.errors.UsageError, match="other SQLite files in each run"):
        proof(shop(folder, a=handler), "a")

    assert {path.name for path in folder.iterdir()} == {"shop.db", "audit.db"}


def test_a_file_that_came_and_went_is_nobodys_business(folder: Path) -> None:
    def handler(event: duly.Event, tx: duly.Tx) -> None:
        order(event, tx)
        scratch = folder / f"{uuid.uuid4().hex}.db"
        written(scratch, "CREATE TABLE scratch (n)")
        scratch.unlink()

    assert proof(shop(folder, a=handler), "a", only="twice").finding is None
    assert {path.name for path in folder.iterdir()} == {"shop.db", "audit.db"}


def test_a_state_that_was_kept_is_never_written_over(folder: Path) -> None:
    def handler(event: duly.Event, tx: duly.Tx) -> None:
        order(event, tx)
        try:
            written(folder / "audit.db", "DELETE FROM log")
        except duly.errors.UsageError:  # it must not help to look away
            written(folder / "audit.db", "DELETE FROM log")

    kept = folder / f"audit.db{COPY_SUFFIX}"
    kept.write_text("all that is left of it")

    with pytest.raises(duly.errors.UsageError, match="is there already"):
        proof(shop(folder, a=handler), "a")

    assert kept.read_text() == "all that is left of it"
    assert log(folder) == ["precious"]


def attach(audit: Path) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as own:
        own.execute("-- by way of memory\nATTACH ? AS audit", [str(audit)])
        own.execute("DELETE FROM audit.log")


def back_up(audit: Path) -> None:
    with closing(sqlite3.connect(":memory:")) as own, closing(sqlite3.connect(audit)) as other:
        own.backup(other)


@pytest.mark.parametrize("way", [attach, back_up], ids=lambda way: way.__name__)
def test_a_file_is_put_back_by_whatever_way_it_was_written_to(
    way: Callable[[Path], None], folder: Path
) -> None:
    def handler(event: duly.Event, tx: duly.Tx) -> None:
        order(event, tx)
        way(folder / "audit.db")

    proof(shop(folder, a=handler), "a", only="twice")

    assert log(folder) == ["precious"]


def test_a_file_that_a_script_attaches_and_writes_to_is_put_back(folder: Path) -> None:
    def handler(event: duly.Event, tx: duly.Tx) -> None:
        order(event, tx)
        with closing(sqlite3.connect(":memory:")) as own:
            own.executescript(f"ATTACH '{folder / 'audit.db'}' AS audit; DELETE FROM audit.log;")

    proof(shop(folder, a=handler), "a", only="twice")

    assert log(folder) == ["precious"]


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_file_keeps_its_journal_mode(mode: str, folder: Path) -> None:
    with closing(sqlite3.connect(folder / "shop.db")) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")

    proof(shop(folder, a=order), "a", only="twice")

    with closing(sqlite3.connect(folder / "shop.db")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == (mode,)


HOLDING = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("INSERT INTO log VALUES ('theirs')")
print("open", flush=True)
sys.stdin.read()
"""


def holder(folder: Path) -> subprocess.Popen[bytes]:
    """Somebody else who has the other file open."""
    words = [sys.executable, "-c", HOLDING, str(folder / "audit.db")]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def auditing(folder: Path) -> Callable[..., None]:
    def handler(event: duly.Event, tx: duly.Tx) -> None:
        order(event, tx)
        written(folder / "audit.db", "DELETE FROM log WHERE line = 'precious'")

    return handler


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_by_others, "GOING", 0.1)


@SEEN
@pytest.mark.usefixtures("impatient")
def test_another_file_that_somebody_has_open_is_left_alone(folder: Path) -> None:
    app = shop(folder, a=auditing(folder))

    with (
        holder(folder) as other,
        pytest.raises(duly.errors.UsageError, match=f"in use by process {other.pid}"),
    ):
        proof(app, "a")

    assert log(folder) == ["precious", "theirs"]
    assert not (folder / f"audit.db{COPY_SUFFIX}").exists()


@SEEN
@pytest.mark.usefixtures("impatient")
def test_what_somebody_writes_during_a_proof_is_not_taken_away(folder: Path) -> None:
    app = shop(folder, a=auditing(folder))
    others = []

    def show(line: str) -> None:
        if line.startswith("1 of"):
            others.append(holder(folder))

    with pytest.raises(duly.errors.UsageError, match="not everything could be put back"):
        proof(app, "a", only="twice", show=show)

    [other] = others
    other.communicate()
    assert "theirs" in log(folder)
    with closing(sqlite3.connect(folder / f"audit.db{COPY_SUFFIX}")) as connection:
        assert connection.execute("SELECT line FROM log").fetchall() == [("precious",)]
    assert (folder / f"shop.db{LIST}").exists()
    with pytest.raises(duly.errors.UsageError, match="ended in the middle"):
        proof(app, "a")
