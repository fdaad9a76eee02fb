"""What was refused makes a proof impossible, also where the handler has caught the error."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager, suppress
from sqlite3 import connect as taken
from typing import TYPE_CHECKING, Any

import aiohttp
import psycopg
import pytest

import duly
from duly.prove.assertion import assert_effectively_once
from duly.prove.recording import NetworkGuard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow


def by_aiohttp() -> None:
    async def charge() -> None:
        async with aiohttp.ClientSession() as session:
            await session.post("https://bank.example/charges", json={"amount": 100})

    with suppress(aiohttp.ClientError):
        asyncio.run(charge())


def by_socket() -> None:
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", 9), timeout=1).close()


def by_program() -> None:
    with suppress(OSError):
        subprocess.run(["env", "true"], check=False)


def by_child() -> None:
    os.waitpid(os.spawnlp(os.P_NOWAIT, "env", "env", "true"), 0)


def by_unwatched_connection() -> None:
    with suppress(duly.errors.UsageError):
        taken(":memory:")


@pytest.fixture
def shop(tmp_path: Path) -> Callable[..., duly.Duly]:
    """An application whose job does what is given, beside a row that is right."""
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE orders (id TEXT)")

    def made(work: Callable[[], Any]) -> duly.Duly:
        app = duly.Duly(f"sqlite:///{path}")

        @app.job(name="order", attempts=3)
        def order(tx: duly.Tx) -> None:
            tx.execute("INSERT INTO orders VALUES ('o-1')")
            work()

        return app

    return made


@pytest.mark.parametrize(
    ("work", "told"),
    [
        (by_aiohttp, "may not connect to bank.example:443"),
        (by_socket, "may not connect to 127.0.0.1:9 "),
        (by_program, "may not start env"),
        (by_child, "may not start env"),
        (by_unwatched_connection, "the proof cannot see this connection"),
    ],
)
def test_a_refusal_that_the_handler_catches_is_no_proof(
    work: Callable[[], None], told: str, shop: Callable[..., duly.Duly]
) -> None:
    with pytest.raises(duly.errors.UsageError, match=told):
        assert_effectively_once(shop(work), job="order", only="twice")


def test_a_database_that_was_refused_is_refused_again_and_no_proof(
    shop: Callable[..., duly.Duly], own_postgres_url: str
) -> None:
    with psycopg.connect(own_postgres_url) as connection:
        connection.execute("CREATE TABLE others (id integer)")

    def work() -> None:
        with psycopg.connect(own_postgres_url, autocommit=True) as other:
            for _ in range(2):
                with suppress(duly.errors.UsageError):
                    other.execute("INSERT INTO others VALUES (1)")

    with pytest.raises(duly.errors.UsageError, match="cannot be put back"):
        assert_effectively_once(shop(work), job="order", only="twice")

    with psycopg.connect(own_postgres_url) as connection:
        assert connection.execute("SELECT count(*) FROM others").fetchone() == (0,)


def knock(port: int) -> None:
    socket.create_connection(("127.0.0.1", port), timeout=5).close()


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_process_of_multiprocessing_that_cannot_be_watched_is_not_started(
    method: str, shop: Callable[..., duly.Duly]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def work() -> None:
            port = server.getsockname()[1]
            context: Any = multiprocessing.get_context(method)
            process = context.Process(target=knock, args=[port])
            process.start()
            process.join()

        with pytest.raises(duly.errors.UsageError, match="may not start python"):
            assert_effectively_once(shop(work), job="order", only="twice")

        server.setblocking(False)
        with pytest.raises(BlockingIOError):  # nobody has come
            server.accept()


@contextmanager
def listening(path: str) -> Iterator[socket.socket]:
    """A socket that is a file of the current folder."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        server.setblocking(False)
        yield server


def test_a_socket_that_is_a_file_is_refused_unless_it_was_named(
    shop: Callable[..., duly.Duly], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "redis.sock"
    monkeypatch.chdir(tmp_path)  # the address of a socket may not be long

    def work() -> None:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(os.path.relpath(path))

    with listening(path.name) as server:
        with pytest.raises(
            duly.errors.UsageError, match=f"may not connect to .*--let-through {path} "
        ):
            assert_effectively_once(shop(work), job="order", only="twice")
        with pytest.raises(BlockingIOError):  # nobody has come
            server.accept()

        named = [(str(path), 0)]
        assert_effectively_once(shop(work), job="order", only="twice", let_through=named)
        server.accept()[0].close()


@pytest.mark.skipif(sys.platform != "linux", reason="names without a file are Linux's")
def test_a_socket_without_a_file_is_refused_by_its_name() -> None:
    net = NetworkGuard()
    net.close(frozenset({("@named", 0)}))
    net.check(socket.AF_UNIX, b"\0named")
    with pytest.raises(OSError, match="--let-through @other "):
        net.check(socket.AF_UNIX, "\0other")


@pytest.mark.parametrize("host", ["/run/postgresql", "localhost"])
def test_the_socket_of_dulys_own_server_is_let_through(host: str) -> None:
    net = NetworkGuard()
    net.close(frozenset({(host, 5432)}))
    net.check(socket.AF_UNIX, "/run/postgresql/.s.PGSQL.5432")
    with pytest.raises(OSError, match="may not connect to"):
        net.check(socket.AF_UNIX, "/run/postgresql/.s.PGSQL.5433")


def test_an_address_of_this_machine_is_let_through_under_each_of_its_names(
    shop: Callable[..., duly.Duly],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def work() -> None:
            socket.create_connection(("localhost", port), timeout=5).close()

        named = [("127.0.0.1", port)]
        assert_effectively_once(shop(work), job="order", only="twice", let_through=named)
