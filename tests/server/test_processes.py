"""Several processes serve one application: each answers, and one that dies is replaced."""

from __future__ import annotations

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.processes.leading import until
from tests.support.serving import APP, Served, rows, served

pytestmark = pytest.mark.slow

TABLE = "CREATE TABLE paid (event TEXT NOT NULL, process INTEGER NOT NULL)"


@pytest.fixture(params=["postgres", "sqlite"])
def url(request: pytest.FixtureRequest) -> str:
    name = "own_postgres_url" if request.param == "postgres" else "sqlite_url"
    found: str = request.getfixturevalue(name)
    rows(found, TABLE)
    return found


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


def processes(server: Served) -> set[int]:
    """The workers that have answered so far, as their log says."""
    told = [json.loads(line) for line in server.log().splitlines()]
    return {one["process"] for one in told if one["logger"] == "duly.access"}


def opened(server: Served) -> None:
    server.log_tells('"serving"')
    first = next(line for line in server.log().splitlines() if '"serving"' in line)
    server.url = json.loads(first)["url"]


def asked_until(server: Served, workers: int) -> set[int]:
    """Ask until so many processes have answered."""
    with ThreadPoolExecutor(8) as threads:

        def look() -> set[int] | None:
            list(threads.map(lambda _: server.get("/healthz"), range(16)))
            return found if len(found := processes(server)) >= workers else None

        return until(look)


def test_every_worker_answers_and_an_event_is_still_handled_once(here: Path, url: str) -> None:
    options = ("shop:app", "--workers", "3", "--log-json")
    with served(here, *options, wait=False, SHOP_URL=url) as server:
        opened(server)
        assert len(asked_until(server, 3)) == 3
        with ThreadPoolExecutor(16) as threads:
            answers = list(threads.map(lambda _: server.send("evt_1", "paid"), range(60)))
        assert {answer.status for answer in answers} == {200}
        said = [answer.body["status"] for answer in answers]
        assert (said.count("accepted"), said.count("duplicate")) == (1, 59)
        server.tell(signal.SIGTERM)
        assert server.ended() == 0
    assert len(rows(url, "SELECT * FROM paid")) == 1
    assert server.pid not in processes(server)


def test_a_worker_that_is_killed_is_replaced(here: Path, url: str) -> None:
    options = ("shop:app", "--workers", "2", "--log-json")
    with served(here, *options, wait=False, SHOP_URL=url) as server:
        opened(server)
        before = asked_until(server, 2)
        killed = min(before)
        os.kill(killed, signal.SIGKILL)
        server.log_tells(f"worker {killed} ended by signal 9: another is started")
        after = asked_until(server, 3)
        assert before < after
        server.tell(signal.SIGTERM)
        assert server.ended() == 0


def test_workers_whose_parent_was_killed_finish_and_leave(here: Path, sqlite_url: str) -> None:
    rows(sqlite_url, TABLE)
    options = ("shop:app", "--workers", "2", "--log-json")
    with served(here, *options, wait=False, SHOP_URL=sqlite_url) as server:
        opened(server)
        workers = asked_until(server, 2)
        server.process.kill()
        server.ended()
        until(lambda: server.closed() or None)
        until(lambda: True if not any(map(alive, workers)) else None)


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_worker_that_cannot_start_ends_the_server_with_its_reason(
    here: Path, sqlite_url: str
) -> None:
    rows(sqlite_url, TABLE)
    first_time = "\nmark = HERE / 'imported'\nassert not mark.exists(), 'only once'\nmark.touch()\n"
    (here / "shop.py").write_text(APP + first_time)
    options = ("shop:app", "--workers", "2")
    with served(here, *options, wait=False, SHOP_URL=sqlite_url) as server:
        assert server.ended() == 1
    assert "shop cannot be imported: AssertionError: only once" in server.log()
    assert server.process.stdout is not None
