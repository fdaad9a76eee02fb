"""Work that a handler leaves behind is waited for, so that its loss is seen; or it is refused."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import duly
from duly.prove import leftover_threads
from duly.prove.assertion import assert_effectively_once

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow

# Of a connection that is not the handler's; statements on duly's own tables are no steps.
RUNNING = "SELECT 1 FROM duly_jobs WHERE state = 'leased'"
URL = "https://mail.example/send"
POOL = ThreadPoolExecutor(1)


@pytest.fixture
def app(tmp_path: Path) -> duly.Duly:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE orders (id TEXT)")
    return duly.Duly(f"sqlite:///{tmp_path / 'shop.db'}")


@pytest.fixture
def runs(tmp_path: Path) -> Callable[[], bool]:
    """Whether the job is not settled yet."""

    def asked() -> bool:
        with closing(sqlite3.connect(tmp_path / "shop.db", timeout=10)) as connection:
            return connection.execute(RUNNING).fetchone() is not None

    return asked


def by_thread(mail: Callable[[], None]) -> None:
    threading.Thread(target=mail).start()


def by_timer(mail: Callable[[], None]) -> None:
    threading.Timer(0.01, mail).start()


def by_pool(mail: Callable[[], None]) -> None:
    POOL.submit(mail)


@pytest.mark.parametrize("begin", [by_thread, by_timer, by_pool])
def test_a_call_by_a_thread_that_nobody_waits_for_is_missed_when_the_process_dies(
    begin: Callable[[Any], None], app: duly.Duly, runs: Callable[[], bool]
) -> None:
    def mail() -> None:
        while runs():
            time.sleep(0.01)
        httpx.post(URL)

    @app.job(name="order", attempts=3)
    def order(tx: duly.Tx) -> None:
        tx.execute("INSERT INTO orders VALUES ('o-1')")
        begin(mail)

    assert f"POST {URL} was made not at all instead of once" in failure(app)


def test_a_call_by_a_task_that_nobody_waits_for_is_missed_when_the_process_dies(
    app: duly.Duly, runs: Callable[[], bool]
) -> None:
    tasks = set()

    async def mail() -> None:
        while runs():  # noqa: ASYNC110  # another transaction settles it
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)  # the work takes its time, and nobody else is busy any more
        async with httpx.AsyncClient() as client:
            await client.post(URL)

    @app.job(name="order", attempts=3)
    async def order(tx: Any) -> None:
        await tx.execute("INSERT INTO orders VALUES ('o-1')")
        tasks.add(asyncio.create_task(mail()))

    assert f"POST {URL} was made not at all instead of once" in failure(app)


def failure(app: duly.Duly) -> str:
    """What is said of being killed when the work and the end of the job were committed."""
    with pytest.raises(AssertionError) as failed:
        assert_effectively_once(app, job="order", only="kill:5")
    return " ".join(str(failed.value).split())


def test_a_thread_that_goes_on_for_ever_is_refused_by_its_name(
    app: duly.Duly, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftover_threads, "LONGEST", 0.1)

    @app.job(name="order", attempts=3)
    def order(tx: duly.Tx) -> None:
        tx.execute("INSERT INTO orders VALUES ('o-1')")
        threading.Thread(target=threading.Event().wait, name="listener").start()

    with pytest.raises(duly.errors.UsageError, match="left the thread listener running"):
        assert_effectively_once(app, job="order")


def test_a_task_that_goes_on_for_ever_is_refused_by_its_name(
    app: duly.Duly, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftover_threads, "LONGEST", 0.1)
    tasks = set()

    async def listen() -> None:
        await asyncio.Event().wait()

    @app.job(name="order", attempts=3)
    async def order(tx: Any) -> None:
        await tx.execute("INSERT INTO orders VALUES ('o-1')")
        tasks.add(asyncio.create_task(listen()))

    with pytest.raises(duly.errors.UsageError, match=r"left the task \S*listen running"):
        assert_effectively_once(app, job="order")
