"""Open transactions wait for each other a bounded time, in no deadlock, however they are ended."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

import duly
from duly.core.onestep import finish
from duly.core.session import Session
from tests.support.cancelling import nobody_is_left, was_cancelled
from tests.support.inboxes import done
from tests.support.openings import SOON, WRITE, Colour, Site, a_site

A_MOMENT = timedelta(milliseconds=50)
LONG = timedelta(seconds=20)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    kind = "own_postgres_url" if request.param == "postgres" else "sqlite_url"
    address: str = request.getfixturevalue(kind)
    return address


@asynccontextmanager
async def held(site: Site) -> AsyncIterator[None]:
    """A handler that is awaited has the one writing connection."""
    async with site.opened() as opened:
        await opened.session.execute(WRITE, {"note": "holder"})
        yield
        # The holder still has statements to run while others wait.
        await opened.session.execute(WRITE, {"note": "holder, later"})


async def test_whoever_waits_too_long_for_the_writer_is_told_and_the_holder_goes_on(
    sqlite_url: str,
) -> None:
    async with a_site(sqlite_url, "async") as site:
        async with held(site):
            begun = time.monotonic()
            with pytest.raises(
                duly.errors.InProgress, match="another handler keeps SQLite's writer busy"
            ):
                await site.write("late", wait=A_MOMENT)
            assert time.monotonic() - begun < 5
        assert site.notes() == ["holder", "holder, later"]
        await site.write("late")


async def test_handlers_of_one_loop_take_turns_in_their_order(sqlite_url: str) -> None:
    order: list[int] = []

    async def handle(site: Site, number: int) -> None:
        async with site.opened(LONG) as opened:
            order.append(number)
            await opened.session.execute(WRITE, {"note": f"{number:02}"})
            await asyncio.sleep(0)
            await opened.session.execute("SELECT 1", {})

    async with a_site(sqlite_url, "async") as site:
        await asyncio.gather(*(handle(site, number) for number in range(30)))
        assert site.notes() == [f"{number:02}" for number in range(30)]
        assert order == list(range(30))


async def count(session: Session) -> int:
    return len(await session.rows("meta_read"))


async def test_every_other_use_of_the_store_waits_for_a_handler_and_none_deadlocks(
    sqlite_url: str,
) -> None:
    async with a_site(sqlite_url, "async") as site:
        async with held(site):
            store = site.store
            with pytest.raises(duly.errors.InProgress):
                await store.async_runner.run(count, wait=A_MOMENT)
            with pytest.raises(duly.errors.InProgress):
                await duly.aio.dedup(store, "shop", "a", wait=A_MOMENT)
            with pytest.raises(duly.errors.InProgress):
                await asyncio.to_thread(duly.dedup, store, "shop", "a", wait=A_MOMENT)
            waiting = asyncio.create_task(duly.aio.dedup(store, "shop", "a", wait=LONG))
            await asyncio.sleep(0)
        assert (await waiting).first
        assert site.notes() == ["holder", "holder, later"]


async def test_handlers_of_both_colours_and_several_loops_share_the_one_writer(
    sqlite_url: str,
) -> None:
    async with a_site(sqlite_url, "async") as site:

        def blocking(number: int) -> None:
            finish(Site(site.store, "sync").write(f"blocking {number:02}", LONG))

        def another_loop(number: int) -> None:
            asyncio.run(site.write(f"loop {number:02}", LONG))

        with ThreadPoolExecutor(16) as threads:
            loop = asyncio.get_running_loop()
            elsewhere = [
                loop.run_in_executor(threads, work, number)
                for number in range(8)
                for work in (blocking, another_loop)
            ]
            here = [site.write(f"here {number:02}", LONG) for number in range(8)]
            await asyncio.gather(*here, *elsewhere)
        assert len(site.notes()) == 24


def test_threads_take_turns_and_the_wait_is_bounded(sqlite_url: str) -> None:
    with duly.store(sqlite_url) as store:
        done(store, "CREATE TABLE notes (note text NOT NULL UNIQUE)")
        site = Site(store, "sync")
        inside, leave = threading.Event(), threading.Event()

        async def hold() -> None:
            async with site.opened() as opened:
                await opened.session.execute(WRITE, {"note": "holder"})
                inside.set()
                assert leave.wait(30)

        holder = threading.Thread(target=lambda: finish(hold()))
        holder.start()
        assert inside.wait(30)
        with pytest.raises(duly.errors.InProgress, match="other threads of this process"):
            finish(site.write("late", wait=A_MOMENT))
        leave.set()
        holder.join()
        finish(site.write("late"))
        assert site.notes() == ["holder", "late"]


async def work(site: Site, note: str) -> None:
    """A block with several awaits of its own."""
    async with site.opened(SOON) as opened:
        await opened.session.execute(WRITE, {"note": note})
        await asyncio.sleep(0)
        await opened.session.execute("SELECT 1", {})


@pytest.mark.parametrize("opened", ["cold", "warm"])
async def test_a_block_cancelled_at_any_await_is_there_whole_or_not_at_all(
    url: str, opened: str
) -> None:
    suspension, cancelled, kept = 0, True, []
    async with a_site(url, "async") as site:
        while cancelled:
            suspension += 1
            if opened == "cold":
                await site.store.aclose()
            note = f"note {suspension:03}"
            cancelled = await was_cancelled(suspension, work(site, note))
            kept.append(note in site.notes())
            # The one connection is free, and nothing of the block is open on it.
            await site.write(f"next {suspension:03}", wait=SOON)
    assert suspension > 4, "nothing was cancelled"
    # A cancellation may come too late to undo anything, and no earlier one may keep anything.
    assert kept == sorted(kept)
    assert (kept[0], kept[-1]) == (False, True)
    assert await nobody_is_left(url)


async def test_a_second_cancellation_while_the_first_is_undone_loses_nothing(url: str) -> None:
    async with a_site(url, "async") as site:
        for number in range(1, 20):
            task = asyncio.create_task(work(site, f"note {number}"))
            for _ in range(number):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            await site.write(f"next {number}", wait=SOON)
    assert await nobody_is_left(url)


@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_a_closed_store_opens_again_for_the_next_handler(url: str, colour: Colour) -> None:
    async with a_site(url, colour) as site:
        await site.write("before")
        site.store.close()
        await site.store.aclose()
        await site.write("after")
        assert site.notes() == ["after", "before"]
