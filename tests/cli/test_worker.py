"""``duly worker``, and the worker in ``duly serve``: told to end, they lose nothing."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import duly
from duly.cli.main import main
from duly.server.shutdown import TOGETHER
from tests.support.processes.forked import Forked, run_forked
from tests.support.processes.leading import PATIENCE, until
from tests.support.serving import SECRET, Served, clean, rows, served
from tests.support.sizes import mostly_wide

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

# Handlers that say that they ran, in a file without any rule against a second line, and wait until
# they are let go.
APP = """
import asyncio
import os
import threading
import time
from datetime import timedelta
from pathlib import Path

import duly
from duly.worker import executor

# How long a handler may hang after its timeout before that counts.
executor.ENDING = 0.2
app = duly.Duly(os.environ["SHOP_URL"])
app.source("stripe", secret=os.environ["SHOP_SECRET"])
HERE = Path(__file__).parent


def say(word, job):
    with (HERE / "said").open("a") as said:
        said.write(f"{word} {job.name} {job.payload} {job.attempt} {job.rescues}\\n")


@app.on("stripe")
def mark_paid(event, tx):
    tx.execute("INSERT INTO paid (event, process) VALUES (:id, :pid)", id=event.id, pid=os.getpid())


@app.job
def quick(job):
    time.sleep(0.02)
    say("done", job)


@app.job
def slow(job):
    say("begun", job)
    while not (HERE / "go").exists():
        time.sleep(0.01)
    say("done", job)


@app.job
async def patient(job):
    say("begun", job)
    while not (HERE / "go").exists():
        await asyncio.sleep(0.01)
    say("done", job)


@app.job
async def rude(job):
    say("begun", job)
    threading.Event().wait()


@app.job(timeout=timedelta(milliseconds=300))
def hangs(job):
    threading.Event().wait()
"""
TABLE = "CREATE TABLE paid (event TEXT NOT NULL, process INTEGER NOT NULL)"
JOBS = "SELECT name, state, attempts, rescues FROM duly_jobs ORDER BY name"
DONE = "SELECT name, count(*), max(attempts) FROM duly_history GROUP BY name ORDER BY name"


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


def enqueued(url: str, **counts: int) -> None:
    """So many jobs of each name, in this order."""
    app = duly.Duly(url)
    for priority, (name, count) in enumerate(counts.items()):

        @app.job(name=name)
        def named() -> None:
            """Not run here."""

        app.enqueue_many(named, range(count), priority=priority)
    app.close()


def leased(url: str) -> int:
    """How many of the slow ones some worker has."""
    return Counter(rows(url, JOBS))["slow", "leased", 0, 0]


def said(here: Path, word: str) -> list[str]:
    """What the handlers said so far."""
    path = here / "said"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.partition(" ")[2] for line in lines if line.startswith(word)]


@contextmanager
def working(here: Path, url: str, *options: str) -> Iterator[Served]:
    """A worker process until the block ends."""
    log = here / "log"
    with (
        log.open("w") as stderr,
        Forked(
            [sys.executable, "-W", "error", "-m", "duly", "worker", "shop:app", *options],
            cwd=here,
            env={**clean(), "SHOP_SECRET": SECRET, "SHOP_URL": url},
            stderr=stderr,
            text=True,
        ) as process,
    ):
        try:
            yield Served(process, log)
        finally:
            process.kill()


def worked(here: Path, *words: str, url: str, code: int = 0) -> str:
    """A worker that ends by itself; what it said."""
    ran = run_forked(
        [sys.executable, "-W", "error", "-m", "duly", "worker", *words],
        cwd=here,
        env={**clean(), "SHOP_SECRET": SECRET, "SHOP_URL": url},
        timeout=PATIENCE,
    )
    assert ran.returncode == code, ran.stderr
    return ran.stderr


def tell_again(server: Served) -> None:
    """A signal that cannot be taken for a part of the one before."""
    time.sleep(TOGETHER + 0.05)
    server.tell(signal.SIGTERM)


def test_jobs_that_run_are_finished_at_the_end_and_those_held_ahead_run_elsewhere(
    here: Path, url: str
) -> None:
    enqueued(url, quick=160, slow=16)
    with working(here, url, "--concurrency", "4") as worker:
        until(lambda: len(said(here, "begun")) == 4 or None)
        # Fast ones came before, so that some are held for the moment at which a slot is free.
        held = until(lambda: count if (count := leased(url) - 4) > 0 else None)
        worker.tell(signal.SIGTERM)
        until(lambda: leased(url) == 4 or None)
        assert worker.process.poll() is None
        (here / "go").touch()
        assert worker.ended() == 0
        assert re.search(rf" draining: .*\n.* ended: 164 done, {held} retried\n", worker.log())
    assert rows(url, JOBS) == [("slow", "ready", 0, 0)] * 12
    told = worked(here, "shop:app", "--until-idle", url=url)
    assert " ended: 12 done\n" in told
    assert rows(url, JOBS) == []
    assert rows(url, DONE) == [("quick", 160, 1), ("slow", 16, 1)]
    ran = [f"quick {n} 1 0" for n in range(160)] + [f"slow {n} 1 0" for n in range(16)]
    assert sorted(said(here, "done")) == sorted(ran)


def test_a_second_signal_gives_back_what_runs_though_it_has_one_attempt(
    here: Path, sqlite_url: str
) -> None:
    enqueued(sqlite_url, slow=1, patient=1)
    with working(here, sqlite_url, "--grace", "3600") as worker:
        until(lambda: len(said(here, "begun")) == 2 or None)
        worker.tell(signal.SIGTERM)
        worker.log_tells("draining")
        tell_again(worker)
        assert worker.ended() == 128 + signal.SIGTERM
    assert rows(sqlite_url, JOBS) == [("patient", "ready", 0, 1), ("slow", "ready", 0, 1)]
    assert said(here, "done") == []
    assert rows(sqlite_url, "SELECT count(*) FROM duly_workers") == [(0,)]


def test_what_does_not_finish_in_time_is_given_back(here: Path, sqlite_url: str) -> None:
    enqueued(sqlite_url, slow=1, patient=1)
    with working(here, sqlite_url, "--grace", "0.2") as worker:
        until(lambda: len(said(here, "begun")) == 2 or None)
        worker.tell(signal.SIGINT)
        assert worker.ended() == 0
    assert rows(sqlite_url, JOBS) == [("patient", "ready", 0, 1), ("slow", "ready", 0, 1)]


def test_signals_are_heard_while_a_handler_holds_up_the_event_loop(
    here: Path, sqlite_url: str
) -> None:
    enqueued(sqlite_url, rude=1)
    with working(here, sqlite_url) as worker:
        until(lambda: said(here, "begun") or None)
        worker.tell(signal.SIGTERM)
        worker.log_tells("draining")
        tell_again(worker)
        worker.log_tells("giving back")
        tell_again(worker)
        assert worker.ended() == 128 + signal.SIGTERM


def test_two_signals_at_one_instant_are_one(here: Path, sqlite_url: str) -> None:
    enqueued(sqlite_url, slow=1)
    with working(here, sqlite_url) as worker:
        until(lambda: said(here, "begun") or None)
        # A process that stands still hears of both when it goes on.
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
            worker.tell(number)
        worker.log_tells("draining")
        (here / "go").touch()
        assert worker.ended() == 0
    assert rows(sqlite_url, DONE) == [("slow", 1, 1)]


def test_a_process_whose_handlers_hang_restarts_and_does_the_rest(
    here: Path, sqlite_url: str
) -> None:
    enqueued(sqlite_url, hangs=3, quick=150)
    told = worked(here, "shop:app", "--until-idle", "--concurrency", "3", url=sqlite_url)
    assert told.count(" CRITICAL duly restarting: ") == 1
    assert told.count(" working for shop:app, ") == 2
    assert rows(sqlite_url, JOBS) == [("hangs", "dead", 1, 0)] * 3
    assert sorted(said(here, "done")) == sorted(f"quick {n} 1 0" for n in range(150))


def test_it_says_what_it_works_on_and_what_it_leaves(here: Path, sqlite_url: str) -> None:
    (here / "shop.py").write_text(f"{APP}\n@app.job(queue='mail')\ndef letter(job): pass\n")
    names = "quick, slow, patient, rude, hangs"
    both = "queues default (10 at a time), mail (10 at a time): "
    told = worked(here, "shop:app", "--until-idle", url=sqlite_url)
    assert f"working for shop:app, {both}{names}, letter, mark_paid\n" in told
    assert told.endswith(" ended: there was nothing to do\n")
    told = worked(here, "shop:app", "--until-idle", "--queue", "mail=2", url=sqlite_url)
    assert "working for shop:app, queue mail (2 at a time): letter; left to others: default" in told


def test_what_cannot_work_is_refused_in_one_line(here: Path, sqlite_url: str) -> None:
    (here / "inline.py").write_text(
        "import duly, os\napp = duly.Duly(os.environ['SHOP_URL'])\n"
        "app.source('stripe', secret='whsec_example_of_a_test', inline=True)\n"
        "@app.on('stripe')\ndef seen(event): pass\n"
    )
    nowhere = "postgresql://shop:canary5@127.0.0.1:1/shop"
    for words, address, code, remedy in [
        ([], sqlite_url, 2, "which application? As in shop:app"),
        (["inline:app"], sqlite_url, 2, "inline:app has nothing that runs as a job: add @app.job"),
        (["shop:app"], "memory:", 2, "use `duly serve`, which has a worker"),
        (["shop:app"], nowhere, 1, "PostgreSQL could not be reached"),
    ]:
        told = worked(here, *words, url=address, code=code)
        assert told.startswith("duly: ")
        assert told.count("\n") == 1
        assert remedy in told
        assert "canary5" not in told


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--queue=a b", "a queue's name is 1 to 100 letters"),
        ("--queue=mail=0", "it must be a number of jobs from 1 to 1,000"),
        ("--lease=0.01", "it must be at least 0.1 seconds"),
        ("--grace=-1", "it must be a number of seconds, 0 to 3600"),
        ("--concurrency=0", "it must be a number of jobs from 1 to 1,000"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(
    option: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["worker", "shop:app", option])
    assert f"argument {option.partition('=')[0]}: {told}" in capsys.readouterr().err


def test_a_served_event_is_handled_by_the_worker_in_the_server(here: Path, url: str) -> None:
    with served(here, "shop:app", SHOP_URL=url) as server:
        assert server.send("evt_1", "paid").body["status"] == "accepted"
        assert server.send("evt_1", "paid").body["status"] == "duplicate"
        until(lambda: rows(url, "SELECT event FROM paid") or None)
        server.tell(signal.SIGTERM)
        assert server.ended() == 0
    assert rows(url, "SELECT event, process FROM paid") == [("evt_1", server.pid)]
    assert rows(url, DONE) == [("mark_paid", 1, 1)]
    assert " the worker has ended: 1 done\n" in server.log()


@pytest.mark.parametrize("processes", mostly_wide(["1", "2"], shown="2".__eq__))
def test_a_server_told_to_end_finishes_its_jobs_and_told_twice_gives_them_back(
    here: Path, sqlite_url: str, processes: str
) -> None:
    rows(sqlite_url, TABLE)
    options = ("shop:app", "--workers", processes, "--drain", "3600")
    enqueued(sqlite_url, slow=1)
    with served(here, *options, SHOP_URL=sqlite_url) as server:
        until(lambda: said(here, "begun") or None)
        server.tell(signal.SIGTERM)
        until(lambda: server.closed() or None)
        (here / "go").touch()
        assert server.ended() == 0
    assert rows(sqlite_url, DONE) == [("slow", 1, 1)]
    (here / "go").unlink()
    enqueued(sqlite_url, slow=1)
    with served(here, *options, SHOP_URL=sqlite_url) as server:
        until(lambda: len(said(here, "begun")) == 2 or None)
        server.tell(signal.SIGTERM)
        until(lambda: server.closed() or None)
        server.tell(signal.SIGTERM)
        assert server.ended() == 128 + signal.SIGTERM
    assert rows(sqlite_url, JOBS) == [("slow", "ready", 0, 1)]


@pytest.mark.parametrize("processes", mostly_wide(["1", "2"], shown="2".__eq__))
def test_a_server_whose_handlers_hang_restarts_and_goes_on_receiving(
    here: Path, sqlite_url: str, processes: str
) -> None:
    rows(sqlite_url, TABLE)
    enqueued(sqlite_url, hangs=3)
    restart = "restarting: " if processes == "1" else "exit code 75: another is started"
    options = ("shop:app", "--workers", processes, "--no-access-log")
    with served(here, *options, SHOP_URL=sqlite_url) as server:
        if processes == "2":  # hung in two processes: neither may have three of them
            until(lambda: rows(sqlite_url, JOBS) == [("hangs", "dead", 1, 0)] * 3 or None)
            enqueued(sqlite_url, hangs=3)
        server.log_tells(restart)
        # On the same socket: no delivery is refused meanwhile.
        assert server.send("evt_1", "paid").status == 200
        until(lambda: rows(sqlite_url, "SELECT event FROM paid") or None)
        server.tell(signal.SIGTERM)
        assert server.ended() == 0
    assert {row[1] for row in rows(sqlite_url, JOBS)} == {"dead"}


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_only_a_delivery_with_work_to_do_wakes_the_worker(colour: str) -> None:
    app = duly.Duly("memory:")
    app.source("stripe", secret=SECRET)
    app.source("inline", provider="stripe", secret=SECRET, inline=True)
    app.on("stripe", "paid")(handled)
    app.on("inline", "paid")(handled)
    rung: list[str] = []
    app.wakeup.add_listener("jobs", lambda: rung.append("rung"))
    for source, event, times in [
        ("stripe", b'{"id": "evt_1", "type": "paid"}', 1),
        ("stripe", b'{"id": "evt_2", "type": "of no interest"}', 1),
        ("inline", b'{"id": "evt_3", "type": "paid"}', 2),
    ]:
        for _ in range(2):  # the second is a duplicate
            headers = duly.sign("stripe", event, SECRET).headers
            if colour == "sync":
                assert app.receive(source, headers, event).status == 200
            else:
                assert asyncio.run(app.aio.receive(source, headers, event)).status == 200
        assert len(rung) == times
    app.close()


def handled(event: duly.Event) -> None:
    """Nothing."""
