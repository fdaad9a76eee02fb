"""Cancels a call at one await after the other, and looks at what is left afterwards."""

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any

import aiosqlite
import psycopg


@types.coroutine
def cancelled_at(
    suspension: int, call: Coroutine[Any, Any, object]
) -> Generator[Any, Any, int | None]:
    """Run a call and cancel its task when it waits for the n-th time; None if it never did."""
    task = asyncio.current_task()
    assert task is not None
    count = 0
    try:
        waited = call.send(None)
        while True:
            count += 1
            if count == suspension:
                task.cancel()
            try:
                reply = yield waited
            except BaseException as problem:
                waited = call.throw(problem)
            else:
                waited = call.send(reply)
    except StopIteration:
        return None if count < suspension else count


async def was_cancelled(suspension: int, call: Coroutine[Any, Any, object]) -> bool:
    """Whether the call waited often enough to be cancelled; it must not swallow that."""

    async def run() -> int | None:
        return await cancelled_at(suspension, call)

    task = asyncio.create_task(run())
    await asyncio.wait([task])
    if task.cancelled():
        return True
    assert task.result() is None, "the call went on as if nobody had cancelled it"
    return False


async def nobody_is_left(url: str) -> bool:
    """Whether no connection of duly's is open any more, and so no transaction and no lock."""
    if url.startswith("sqlite:"):
        async with aiosqlite.connect(url.removeprefix("sqlite:///"), timeout=0) as connection:
            await connection.execute("BEGIN EXCLUSIVE")
        return True
    async with await psycopg.AsyncConnection.connect(url) as connection:
        cursor = await connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'duly'"
            " AND datname = current_database() AND state <> 'idle'"
        )
        return await cursor.fetchone() == (0,)
