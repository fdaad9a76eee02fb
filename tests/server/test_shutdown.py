"""A server that is told to end finishes what it has begun, or ends at once if it is told twice."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

import duly
from tests.support.processes.leading import PATIENCE, until
from tests.support.serving import APP, SECRET, Served, rows, served
from tests.support.sizes import mostly_wide

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from tests.support.serving import Answer

pytestmark = pytest.mark.slow

TABLE = "CREATE TABLE paid (event TEXT NOT NULL, process INTEGER NOT NULL)"
PAID = "SELECT event FROM paid ORDER BY event"
COUNTED = (
    "SELECT name, sum(n) FROM duly_counters WHERE name NOT LIKE 'job%' GROUP BY name ORDER BY name"
)


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


@contextmanager
def slow_delivery(here: Path, server: Served) -> Iterator[Future[Answer]]:
    """A delivery whose handler has begun, and goes on when the file ``go`` is there."""
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(server.send, "evt_slow", "slow")
        until(lambda: True if (here / "begun").exists() else None)
        try:
            yield answer
        finally:
            (here / "go").touch()


@pytest.mark.parametrize("workers", mostly_wide(["1", "2"], shown="2".__eq__))
@pytest.mark.parametrize(
    "number", mostly_wide([signal.SIGTERM, signal.SIGINT], shown=signal.SIGTERM.__eq__)
)
def test_what_was_begun_is_finished_and_answered_before_the_end(
    here: Path, url: str, number: signal.Signals, workers: str
) -> None:
    with served(here, "shop:app", "--workers", workers, SHOP_URL=url) as server:
        with slow_delivery(here, server) as answer:
            server.tell(number)
            until(lambda: server.closed() or None)
            assert not answer.done()
            assert server.process.poll() is None
        assert answer.result(PATIENCE).body == {"status": "accepted", "event": "evt_slow"}
        assert server.ended() == 0
    assert server.log().count(" ended: ") == 1
    assert " ended: " in server.log().splitlines()[-1]
    assert rows(url, PAID) == [("evt_slow",)]


@pytest.mark.parametrize("workers", mostly_wide(["1", "2"], shown="2".__eq__))
def test_a_signal_to_every_process_is_still_one_signal(
    here: Path, sqlite_url: str, workers: str
) -> None:
    rows(sqlite_url, TABLE)
    with served(here, "shop:app", "--workers", workers, SHOP_URL=sqlite_url) as server:
        with slow_delivery(here, server) as answer:
            server.tell_all(signal.SIGTERM)
            until(lambda: server.closed() or None)
            assert not answer.done()
        assert answer.result(PATIENCE).status == 200
        assert server.ended() == 0
    assert "another is started" not in server.log()


def test_a_worker_that_is_told_twice_to_drain_finishes_all_the_same(
    here: Path, sqlite_url: str
) -> None:
    rows(sqlite_url, TABLE)
    with served(here, "shop:app", "--workers", "2", SHOP_URL=sqlite_url) as server:
        with slow_delivery(here, server) as answer:
            os.kill(int((here / "begun").read_text()), signal.SIGTERM)
            server.log_tells("draining: ")
            server.tell(signal.SIGTERM)
            until(lambda: server.closed() or None)
            assert not answer.done()
        assert answer.result(PATIENCE).status == 200
        assert server.ended() == 0


def test_what_was_counted_is_written_at_the_end(here: Path, url: str) -> None:
    with served(here, "shop:app", "--workers", "2", SHOP_URL=url) as server:
        for _ in range(10):
            server.send("evt_1", "paid")
        assert server.send("evt_2", "paid", source="later").status == 200
        server.tell(signal.SIGTERM)
        assert server.ended() == 0
    assert rows(url, COUNTED) == [("accepted", 2), ("duplicate", 9)]


def test_an_idle_server_ends_by_ctrl_c_without_a_word_of_complaint(here: Path, url: str) -> None:
    with served(here, "shop:app", SHOP_URL=url) as server:
        server.tell(signal.SIGINT)
        assert server.ended() == 0
    assert [line.split(" ", 1)[1] for line in server.log().splitlines()] == [
        "INFO duly.serve draining: the requests that are here are finished first",
        "INFO duly.serve ended: everything that was begun is answered",
    ]


@pytest.mark.parametrize("workers", mostly_wide(["1", "2"], shown="2".__eq__))
def test_a_second_signal_ends_it_at_once_and_keeps_nothing_half_done(
    here: Path, url: str, workers: str
) -> None:
    options = ("--workers", workers, "--drain", "3600")
    with served(here, "shop:app", *options, SHOP_URL=url) as server:
        with slow_delivery(here, server) as answer:
            server.tell(signal.SIGTERM)
            until(lambda: server.closed() or None)
            server.tell(signal.SIGTERM)
            assert server.ended() == 128 + signal.SIGTERM
            with pytest.raises((OSError, http.client.HTTPException)):
                answer.result(PATIENCE)
        assert rows(url, PAID) == []


def test_a_drain_that_takes_too_long_is_given_up_and_says_so(here: Path, url: str) -> None:
    with served(here, "shop:app", "--drain", "0.5", SHOP_URL=url) as server:
        assert server.send("evt_1", "paid").status == 200
        with slow_delivery(here, server) as answer:
            server.tell(signal.SIGTERM)
            assert server.ended() == 1
            with pytest.raises((OSError, http.client.HTTPException)):
                answer.result(PATIENCE)
    assert "gave up after 0.5 seconds of draining: 1 unanswered" in server.log()
    assert " ended: " not in server.log()
    assert rows(url, PAID) == [("evt_1",)]


def test_readiness_says_draining_while_the_server_lingers(here: Path, url: str) -> None:
    with served(here, "shop:app", "--linger", "2", SHOP_URL=url) as server:
        assert server.get("/readyz").body == {"status": "ready"}
        begun = time.monotonic()
        server.tell(signal.SIGTERM)
        draining = until(lambda: told if (told := server.get("/readyz")).status != 200 else None)
        assert (draining.status, draining.body) == (503, {"status": "draining"})
        assert server.get("/healthz").status == 200
        assert server.send("evt_1", "paid").body["status"] == "accepted"
        until(lambda: server.closed() or None)
        assert time.monotonic() - begun > 2
        assert server.ended() == 0
    assert rows(url, PAID) == [("evt_1",)]


def test_a_connection_kept_open_does_not_hold_up_the_end(here: Path, url: str) -> None:
    with served(here, "shop:app", SHOP_URL=url) as server:
        parts = urlsplit(server.url)
        idle = http.client.HTTPConnection(str(parts.hostname), parts.port or 0, timeout=PATIENCE)
        idle.request("GET", "/healthz")
        assert idle.getresponse().read() == b'{"status": "alive"}'
        with socket.create_connection((str(parts.hostname), parts.port)) as silent:
            silent.sendall(b"POST /stripe HTTP/1.1\r\n")
            server.tell(signal.SIGTERM)
            assert server.ended() == 0
        idle.close()


class Raw:
    """A connection on which anything can be sent."""

    def __init__(self, server: Served) -> None:
        parts = urlsplit(server.url)
        self.socket = socket.create_connection((parts.hostname or "", parts.port or 0), PATIENCE)

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: Any) -> None:
        self.socket.close()

    def rest(self) -> bytes:
        """Everything that still comes before the server closes."""
        told = b""
        while chunk := self.socket.recv(65536):
            told += chunk
        return told


SHORT = "import duly.server.protocol as p\np.HEADER_SECONDS = 1.5"
BEGUN = b"POST /stripe HTTP/1.1\r\nhost: shop\r\n"


def test_headers_that_never_end_are_refused_in_time(here: Path, sqlite_url: str) -> None:
    rows(sqlite_url, TABLE)
    with served(here, "shop:app", first=SHORT, SHOP_URL=sqlite_url) as server:
        with Raw(server) as second:
            second.socket.sendall(b"GET /healthz HTTP/1.1\r\nhost: shop\r\n\r\n")
            assert second.socket.recv(65536).startswith(b"HTTP/1.1 200 ")
            second.socket.sendall(BEGUN)
            assert b"HTTP/1.1 408 " in second.rest()
        with Raw(server) as slow, Raw(server) as silent:
            slow.socket.sendall(BEGUN)
            assert slow.rest().startswith(b"HTTP/1.1 408 ")
            assert silent.rest() == b""
        assert server.send("evt_1", "paid").status == 200


def test_headers_without_bounds_are_refused_before_they_fill_the_memory(
    here: Path, sqlite_url: str
) -> None:
    rows(sqlite_url, TABLE)
    with served(here, "shop:app", SHOP_URL=sqlite_url) as server:
        with Raw(server) as endless:
            endless.socket.sendall(BEGUN)
            with pytest.raises(ConnectionError):
                for number in range(100_000):
                    endless.socket.sendall(b"x-%d: %s\r\n" % (number, b"x" * 1000))
        with Raw(server) as large:
            large.socket.sendall(BEGUN + b"x-large: " + b"x" * 65536 + b"\r\n")
            assert large.rest().startswith(b"HTTP/1.1 431 ")
        assert server.send("evt_1", "paid").status == 200


def test_too_many_connections_are_told_to_come_again_and_probes_are_not(
    here: Path, sqlite_url: str
) -> None:
    rows(sqlite_url, TABLE)
    with served(here, "shop:app", "--limit-concurrency", "2", SHOP_URL=sqlite_url) as server:
        with Raw(server), Raw(server):
            until(lambda: told if (told := server.send("evt_1", "paid")).status == 503 else None)
            told = server.send("evt_1", "paid")
            assert (told.status, told.body["error"]) == (503, "OVERLOADED")
            assert told.headers["retry-after"] == "1"
            assert server.get("/readyz").status == 200
        until(lambda: told if (told := server.send("evt_2", "paid")).status == 200 else None)
    assert " duly.access POST /stripe 503 OVERLOADED - " in server.log()


def test_a_slow_request_behind_one_that_is_answered_does_not_cost_its_answer(
    here: Path, sqlite_url: str
) -> None:
    rows(sqlite_url, TABLE)
    with served(here, "shop:app", first=SHORT, SHOP_URL=sqlite_url) as server:
        body = b'{"id": "evt_1", "type": "slow"}'
        signed = duly.sign("stripe", body, SECRET)
        lines = "".join(f"{name}: {value}\r\n" for name, value in signed.headers.items())
        with Raw(server) as pipelined:
            head = f"{BEGUN.decode()}{lines}content-length: {len(body)}\r\n\r\n"
            pipelined.socket.sendall(head.encode() + body + BEGUN)
            until(lambda: True if (here / "begun").exists() else None)
            pipelined.socket.settimeout(3.0)
            with pytest.raises(TimeoutError):
                pipelined.socket.recv(1)  # for twice as long as the patience for headers
            (here / "go").touch()
            pipelined.socket.settimeout(PATIENCE)
            assert pipelined.rest().startswith(b"HTTP/1.1 200 ")
