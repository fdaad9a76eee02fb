"""What a killed server had at work comes back when its own `--lease` has run out."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import duly
from duly.worker.settings import LEASE
from tests.support.processes.leading import until
from tests.support.serving import refused, rows, served

if TYPE_CHECKING:
    from pathlib import Path

# What the first server begins never ends; the second ends it.
APP = """
import os
import time

import duly

app = duly.Duly(os.environ["SHOP_URL"])


def hang():
    while os.environ["SHOP_HANGS"] == "yes":
        time.sleep(0.05)


@app.job()
def work(job):
    with open("began", "a") as began:
        print(os.environ["SHOP_HANGS"], file=began)
    hang()


@app.transport("mail")
def mail(message):
    hang()
"""
# How long after the killed worker's last heartbeat its job was done.
TOOK = """
SELECT extract(epoch FROM history.ended - worker.seen_at)::float
  FROM duly_history AS history, duly_workers AS worker WHERE worker.pid = {pid}
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


def run_elsewhere(job: object) -> None:
    """Stands for the handler, in a process that only enqueues."""


def send_elsewhere(message: object) -> None:
    """Stands for the transport, in a process that only stages."""


def test_a_job_of_a_killed_server_comes_back_after_the_lease_that_was_given(
    here: Path, own_postgres_url: str
) -> None:
    url = own_postgres_url
    options = ("shop:app", "--lease", "1", "--no-relay")
    with served(here, *options, SHOP_URL=url, SHOP_HANGS="yes") as first:
        with closing(duly.Duly(url)) as shop:
            shop.job(name="work")(run_elsewhere)
            shop.enqueue("work")
        until(lambda: (here / "began").exists() or None)
        [(lease,)] = rows(url, "SELECT lease FROM duly_workers")
        assert lease == 1_000_000
        first.process.kill()
        assert first.ended() == -9
        with served(here, *options, SHOP_URL=url, SHOP_HANGS="no"):
            [(took,)] = until(lambda: rows(url, TOOK.format(pid=first.pid)) or None)
    assert (here / "began").read_text().split() == ["yes", "no"]
    # No speed is promised here: without the option no job of a lost worker comes back before this.
    assert took < LEASE.total_seconds()


def test_the_relay_of_a_server_leases_messages_for_as_long_as_it_is_told(
    here: Path, own_postgres_url: str
) -> None:
    url = own_postgres_url
    leased = "SELECT lease_until < clock_timestamp() + interval '20 seconds' FROM duly_outbox"
    options = ("shop:app", "--relay-lease", "20", "--no-worker")
    with served(here, *options, SHOP_URL=url, SHOP_HANGS="yes"):
        with closing(duly.Duly(url)) as shop:
            shop.transport("mail")(send_elsewhere)
            shop.send("mail:ann@example.com", data="hello")
        assert until(lambda: rows(url, f"{leased} WHERE state = 'leased'") or None) == [(True,)]


@pytest.mark.parametrize("option", ["--lease", "--relay-lease"])
def test_a_lease_that_no_heartbeat_could_keep_is_refused(here: Path, option: str) -> None:
    told = refused(here, "shop:app", option, "0.05", SHOP_URL="memory:", SHOP_HANGS="no")
    assert told.returncode == 2
    assert f"argument {option}: it must be at least 0.1 seconds" in told.stderr
