"""/readyz is 503 while deliveries would be refused, says why in a word, and is 200 again after."""

import asyncio
import io
import json
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, make_url
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

import duly
from duly.receiver import readiness
from tests.receiver.faults.doors import PATIENCE, Answer, AsgiDoor, answer_of
from tests.receiver.faults.shops import Mode, Shop
from tests.receiver.faults.test_sqlite_files import resize
from tests.support.processes import until
from tests.support.proxies import Cut, Proxy
from tests.support.serving import APP, rows, served

pytestmark = pytest.mark.slow

READY = (200, {"status": "ready"})
# What the server says of a disk on which it cannot make a file larger, at the same statement.
FULL = """
CREATE FUNCTION refuse_growth() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$;
CREATE TRIGGER refuse_growth BEFORE INSERT ON duly_events
FOR EACH ROW EXECUTE FUNCTION refuse_growth()
"""
ROOM = "DROP TRIGGER refuse_growth ON duly_events"


def unready(reason: str) -> tuple[int, dict[str, str]]:
    return 503, {"status": "unavailable", "reason": reason}


async def asked_awaited(app: duly.Duly) -> Answer:
    told: list[Any] = []

    async def receive() -> Any:
        return await asyncio.Future()

    async def send(message: Any) -> None:
        told.append(message)

    scope = {"type": "http", "method": "GET", "path": "/readyz", "headers": []}
    await app(scope, receive, send)
    return answer_of(told[0]["status"], [], told[1]["body"])


def asked_blocking(app: duly.Duly) -> Answer:
    told: list[Any] = []
    environ = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": "/readyz",
        "SERVER_NAME": "shop.test",
        "SERVER_PORT": "80",
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(b""),
        "wsgi.errors": sys.stderr,
    }
    body = b"".join(app.wsgi(environ, lambda *started: told.extend(started)))
    return answer_of(int(told[0].split()[0]), [], body)


def probe(shop: Shop) -> Future[Answer]:
    """Ask in the protocol of the shop's door."""
    if isinstance(shop.door, AsgiDoor):
        return asyncio.run_coroutine_threadsafe(asked_awaited(shop.app), shop.door.loop)
    return shop.door._threads.submit(asked_blocking, shop.app)


def ready(shop: Shop) -> tuple[int, dict[str, Any]]:
    answer = probe(shop).result(PATIENCE)
    return answer.status, answer.body


def becomes(shop: Shop, wanted: tuple[int, dict[str, Any]]) -> None:
    """Ask until it is so: an outcome is kept for a second."""
    until(lambda: True if ready(shop) == wanted else None)


class HandTime:
    """Seconds that pass when they are told to."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One entry for each write that a probe began."""
    begun: list[None] = []
    write = readiness.write_probe_row

    async def counted(session: Any) -> None:
        begun.append(None)
        await write(session)

    monkeypatch.setattr(readiness, "write_probe_row", counted)
    return begun


def test_it_is_ready_and_leaves_only_rows_of_its_own(url: str, way: str, mode: Mode) -> None:
    with Shop(url, way, mode) as shop:
        shop.warm()
        assert ready(shop) == READY
        [(names,)] = shop.books.ask("SELECT count(*) FROM duly_meta WHERE name LIKE 'readiness%'")
        assert names == 1


def test_many_who_ask_share_one_write_a_second(url: str, way: str, writes: list[None]) -> None:
    with Shop(url, way) as shop:
        shop.warm()
        time = shop.app.receiver.readiness._seconds = HandTime()
        for number in (1, 2):
            answers = [probe(shop) for _ in range(50)]
            assert {one.result(PATIENCE).status for one in answers} == {200}
            assert len(writes) == number
            time.now += 1


def test_a_full_file_makes_it_unready_until_a_delivery_is_written(
    sqlite_url: str, way: str, mode: Mode
) -> None:
    with Shop(sqlite_url, way, mode) as shop:
        shop.warm()
        assert ready(shop) == READY
        deliveries = [shop.delivery(kind="x" * 3000) for _ in range(20)]
        resize(shop, 4)
        assert 503 in {answer.status for answer in shop.post_all(deliveries)}
        # One after the other, since a small one may still find room.
        until(lambda: True if shop.post(shop.delivery(kind="x" * 9000)).status == 503 else None)
        becomes(shop, unready("disk_full"))
        resize(shop, 10_000)
        for delivery in deliveries:
            shop.retried(delivery)
        becomes(shop, READY)


def test_a_disk_that_takes_no_byte_makes_it_unready_without_any_delivery(tmp_path: Path) -> None:
    """The process lowers the size that its files may have: every write fails as the kernel says."""
    (tmp_path / "shop.py").write_text(APP)
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    rows(url, "CREATE TABLE paid (event TEXT NOT NULL, process INTEGER NOT NULL)")
    limits = """
import resource, signal
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
limit = lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
signal.signal(signal.SIGUSR1, lambda *_: limit(1))
signal.signal(signal.SIGUSR2, lambda *_: limit(most))
"""
    with served(tmp_path, "shop:app", "--no-worker", first=limits, SHOP_URL=url) as server:
        assert server.get("/readyz").body == {"status": "ready"}
        server.tell(signal.SIGUSR1)
        until(lambda: True if server.get("/readyz").status == 503 else None)
        assert server.get("/readyz").body["status"] == "unavailable"
        assert server.get("/healthz").status == 200
        server.tell(signal.SIGUSR2)
        until(lambda: True if server.get("/readyz").body == {"status": "ready"} else None)
        assert server.send("evt_1", "paid").status == 200


def test_a_server_whose_disk_is_full_makes_it_unready_for_as_long_as_it_is_seen(
    own_postgres_url: str, way: str, mode: Mode
) -> None:
    with Shop(own_postgres_url, way, mode) as shop:
        shop.warm()
        time = shop.app.receiver.readiness._seconds = HandTime()
        shop.books.ask(FULL)
        refused = shop.delivery()
        assert shop.post(refused).come_again
        assert ready(shop) == unready("disk_full")
        time.now += readiness.REMEMBERED
        assert ready(shop) == READY  # nobody has come since: the probe decides alone
        assert shop.post(refused).come_again
        assert ready(shop) == unready("disk_full")
        shop.books.ask(ROOM)
        assert shop.post(refused).said == "accepted"
        assert ready(shop) == READY


def test_a_read_only_database_makes_it_unready(own_postgres_url: str, way: str, mode: Mode) -> None:
    with Shop(own_postgres_url, way, mode) as shop:
        shop.warm()
        with writable_by_hand(own_postgres_url) as switch:
            switch("on")
            becomes(shop, unready("read_only"))
            switch("off")
            becomes(shop, READY)


@contextmanager
def writable_by_hand(url: str) -> Iterator[Any]:
    """Make a database read-only for all who connect, and have them connect anew."""
    name = make_url(url).database
    options = "-cdefault_transaction_read_only=off"
    with psycopg.connect(url, autocommit=True, options=options) as admin:

        def switch(setting: str) -> None:
            admin.execute(
                f'ALTER DATABASE "{name}" SET default_transaction_read_only = {setting}'.encode()
            )
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

        yield switch


def test_a_server_that_never_answers_a_write_makes_it_unready_with_one_probe_under_way(
    wire: Proxy, own_postgres_url: str, way: str, writes: list[None]
) -> None:
    with Shop(wire.url, way, beside=own_postgres_url) as shop:
        shop.warm()
        assert ready(shop) == READY
        until(lambda: True if shop.app.receiver.metrics._due is None else None)  # its INSERTs
        wire.set(Cut.HOLE, "INSERT", times=1000)
        until(lambda: True if ready(shop)[0] == 503 else None)
        begun = len(writes)
        answers = [probe(shop) for _ in range(50)]
        assert {one.result(PATIENCE).status for one in answers} == {503}
        assert len(writes) <= begun + 1
        wire.trap = None
        becomes(shop, READY)


def orm(url: str, colour: str) -> Any:
    """A session factory over the wire, as the documentation shows it: no timeout of its own."""
    address = make_url(url).set(query={})
    if colour == "async":
        engine = create_async_engine(
            address.set(drivername="postgresql+asyncpg"), connect_args={"ssl": False}
        )
        return async_sessionmaker(engine)
    plain = {"sslmode": "disable", "gssencmode": "disable"}
    return sessionmaker(
        create_engine(address.set(drivername="postgresql+psycopg"), connect_args=plain)
    )


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_commits_of_the_orm_that_are_never_answered_make_it_unready_until_they_are(
    wire: Proxy, own_postgres_url: str, way: str, colour: str
) -> None:
    mode: Mode = "inline async" if colour == "async" else "inline"
    begin = orm(wire.url, colour)
    with Shop(own_postgres_url, way, mode, begin=begin) as shop:
        shop.warm()
        assert ready(shop) == READY
        wire.set(Cut.HOLE, "COMMIT", times=1000)
        stuck = [shop.send(shop.delivery()) for _ in range(6)]
        becomes(shop, unready("no_answer"))
        wire.trap = None
        wire.cut()
        for one in stuck:
            one.exception(PATIENCE)
        shop.retried(shop.delivery())
        becomes(shop, READY)
        dispose(begin, shop)


def dispose(begin: Any, shop: Shop) -> None:
    """Close the ORM's connections where they belong."""
    engine = begin.kw["bind"]
    if not isinstance(begin, async_sessionmaker):
        engine.dispose()
    elif isinstance(shop.door, AsgiDoor):
        asyncio.run_coroutine_threadsafe(engine.dispose(), shop.door.loop).result(PATIENCE)
    else:
        shop.app.receiver._inline._loop_thread.run(engine.dispose())


def test_the_answer_names_nothing_of_the_database(own_postgres_url: str, way: str) -> None:
    with Shop(own_postgres_url, way) as shop:
        shop.warm()
        with writable_by_hand(own_postgres_url) as switch:
            switch("on")
            becomes(shop, unready("read_only"))
            said = json.dumps(ready(shop))
            switch("off")
            becomes(shop, READY)
    assert str(make_url(own_postgres_url).database) not in said
