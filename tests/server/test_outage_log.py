"""In an outage the log of a process says what it means there, and is not drowned by a pool."""

from __future__ import annotations

import logging
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psycopg
import pytest

import duly
from duly.cli.main import main
from duly.server.logging import POOL_PAUSE, PoolLogThrottle
from tests.support.processes.forked import Forked
from tests.support.processes.leading import until
from tests.support.serving import clean, rows, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

APP = """
import os

import duly

app = duly.Duly(os.environ["SHOP_URL"])
app.source("stripe", secret=os.environ["SHOP_SECRET"])


@app.on("stripe")
def book(event):
    pass
"""
FOR_SENDERS = "let the sender retry"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


@contextmanager
def away(server: str, url: str) -> Iterator[None]:
    """The database accepts no connection until the end of the block, and closes all others."""
    name = urlsplit(url).path[1:]
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false'.encode())
        try:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
            )
            yield
        finally:
            admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true'.encode())


def test_a_worker_in_an_outage_is_not_told_to_answer_and_its_lines_are_not_hidden(
    here: Path, postgres_server: str, own_postgres_url: str
) -> None:
    log = here / "log"
    with (
        log.open("w") as stderr,
        Forked(
            [sys.executable, "-m", "duly", "worker", "shop:app", "--lease", "0.3"],
            cwd=here,
            env={**clean(), "SHOP_URL": own_postgres_url, "SHOP_SECRET": "whsec_not_used_here"},
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        ) as worker,
    ):
        try:
            until(lambda: rows(own_postgres_url, "SELECT 1 FROM duly_workers") or None)
            with away(postgres_server, own_postgres_url):
                # By then it has tried to connect again and again.
                until(lambda: "reconnection attempt in pool" in log.read_text() or None)
                until(lambda: "WARNING duly " in log.read_text() or None)
        finally:
            worker.kill()
    text = log.read_text()
    assert FOR_SENDERS not in text
    lines = [line for line in text.splitlines() if " psycopg.pool " in line]
    assert lines, "the pool still says that it cannot connect"
    subjects = {line.partition("psycopg.pool ")[2].partition(":")[0] for line in lines}
    assert len(lines) == len(subjects)


def test_a_server_in_an_outage_says_that_it_answered_503(
    here: Path, postgres_server: str, own_postgres_url: str
) -> None:
    with served(here, "shop:app", "--no-worker", "--no-relay", SHOP_URL=own_postgres_url) as server:
        with away(postgres_server, own_postgres_url):
            assert server.send("evt_1", "paid").status == 503
            server.log_tells("could not be written, and was answered 503, so that its sender comes")
        assert FOR_SENDERS not in server.log()


def test_a_command_is_told_what_its_caller_can_do(
    postgres_server: str, own_postgres_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with away(postgres_server, own_postgres_url):
        assert main(["jobs", own_postgres_url]) == 1
    said = capsys.readouterr().err
    assert said.endswith("(run the command again once the database answers)\n")
    assert FOR_SENDERS not in said


def test_a_caller_in_a_receiver_is_still_told_what_to_answer(
    postgres_server: str, own_postgres_url: str
) -> None:
    with (
        away(postgres_server, own_postgres_url),
        pytest.raises(duly.errors.StoreUnavailable) as caught,
    ):
        duly.dedup(duly.store(own_postgres_url), "shop", "evt_1")
    assert any(FOR_SENDERS in note for note in caught.value.__notes__)
    assert FOR_SENDERS not in str(caught.value)


def test_a_pool_says_the_same_once_a_minute_with_how_often(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    monkeypatch.setattr("duly.server.logging.time.monotonic", lambda: now[0])
    pool = logging.getLogger("psycopg.pool")
    seldom = PoolLogThrottle()
    pool.addFilter(seldom)
    try:
        for number in range(48):
            pool.warning("error connecting in %r: %s", "duly", f"refused {number}")
            pool.warning("discarding closed connection: %s", object())
        pool.warning("error connecting in %r: %s", "reports", "refused")
        now[0] = POOL_PAUSE
        pool.warning("error connecting in %r: %s", "duly", "refused 48")
    finally:
        pool.removeFilter(seldom)
    first, closed, other, again = caplog.messages
    assert first == "error connecting in 'duly': refused 0"
    assert closed.startswith("discarding closed connection: ")
    assert other == "error connecting in 'reports': refused"
    assert again == "error connecting in 'duly': refused 48 (and 47 times before)"


def test_an_application_that_only_imports_duly_logs_as_it_did() -> None:
    program = (
        "import duly, logging, duly.stores.postgres.store;"
        "assert not logging.getLogger('psycopg.pool').filters"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
