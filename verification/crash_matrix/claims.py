"""Steps on the ledger itself: claims in a transaction of the user's, and under a lease."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

import aiosqlite
import asyncpg
import psycopg

import duly
from verification.crash_matrix.bench import LEASE
from verification.crash_matrix.parts import is_sqlite, past
from verification.crash_matrix.shop import COUNT, note, note_awaited

if TYPE_CHECKING:
    from verification.crash_matrix.bench import Bench
    from verification.crash_matrix.places import Place

# How long a claim in a transaction of the user's waits for another one; for ever, unless told.
MOMENT = timedelta(seconds=1)
CLAIM = ("INSERT INTO effects (what, who) VALUES ('claim', 0)", COUNT)
SCOPE = "matrix"


async def claiming(bench: Bench, place: Place) -> None:
    """One key, and its effect in the same transaction of the user's, on a driver of the user's."""
    claim = {
        (True, True): claim_sqlite3,
        (True, False): claim_psycopg,
        (False, True): claim_aiosqlite,
        (False, False): claim_asyncpg,
    }[bench.is_sync, is_sqlite(place)]
    await claim(bench.terms.url)


async def claim_sqlite3(url: str) -> None:
    """With the standard library's."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute("BEGIN IMMEDIATE")
        if duly.dedup(connection, "matrix", "claim", wait=MOMENT).first:
            for statement in CLAIM:
                connection.execute(statement)


async def claim_aiosqlite(url: str) -> None:
    """With aiosqlite."""
    async with aiosqlite.connect(url.removeprefix("sqlite:///")) as connection:
        await connection.execute("BEGIN IMMEDIATE")
        if (await duly.aio.dedup(connection, "matrix", "claim", wait=MOMENT)).first:
            for statement in CLAIM:
                await connection.execute(statement)
        await connection.commit()


async def claim_psycopg(url: str) -> None:
    """With psycopg."""
    with psycopg.connect(url) as connection:
        if duly.dedup(connection, "matrix", "claim", wait=MOMENT).first:
            for statement in CLAIM:
                connection.execute(statement)


async def claim_asyncpg(url: str) -> None:
    """With asyncpg."""
    connection = await asyncpg.connect(url, statement_cache_size=0)
    try:
        async with connection.transaction():
            if (await duly.aio.dedup(connection, "matrix", "claim", wait=MOMENT)).first:
                for statement in CLAIM:
                    await connection.execute(statement)
    finally:
        await connection.close()


async def taking_turns(bench: Bench, place: Place) -> None:
    """Long work under a lease that is renewed; its effect and the mark are one transaction."""
    if bench.is_sync:
        take_turns(bench)
    else:
        await take_turns_awaited(bench, place)


def take_turns(bench: Bench) -> None:
    """In blocking code."""
    with duly.once(bench.app.store, SCOPE, "turn", lease=LEASE) as turn:
        if turn.first:
            turn.renew()
            with bench.app.transaction() as tx:
                note(tx, "turn")
                turn.mark("done", tx=tx.connection)


async def take_turns_awaited(bench: Bench, place: Place) -> None:
    """The same, awaited; on SQLite in a transaction of the user's, for duly's own blocks."""
    async with duly.aio.once(bench.app.store, SCOPE, "turn", lease=LEASE) as turn:
        if not turn.first:
            return
        await turn.renew()
        if not is_sqlite(place):
            async with bench.app.aio.transaction() as tx:
                await note_awaited(tx, "turn")
                await turn.mark("done", tx=tx.connection)
            return
        async with aiosqlite.connect(bench.terms.url.removeprefix("sqlite:///")) as connection:
            await connection.execute("BEGIN IMMEDIATE")
            await connection.execute("INSERT INTO effects (what, who) VALUES ('turn', 0)")
            await connection.execute(COUNT)
            await turn.mark("done", tx=connection)
            await connection.commit()


async def fencing(bench: Bench, place: Place) -> None:
    """Work that is done for the first caller, and remembered for the others."""
    journal = bench.terms.journal

    def work() -> str:
        journal.write("call", name="fenced", key="fenced")
        return "done"

    async def awaited() -> str:
        return work()

    if bench.is_sync:
        result = duly.fence(bench.app.store, SCOPE, "fence", work, lease=LEASE)
    else:
        result = await duly.aio.fence(bench.app.store, SCOPE, "fence", awaited, lease=LEASE)
    if result != "done":
        journal.write("odd", problem=f"the fence gave {result!r}")


async def left_under_lease(bench: Bench, place: Place) -> None:
    """The lease of one who began, and never came back."""
    await fencing(bench, place)
    place.rows(f"UPDATE duly_claims SET state = 'held', result = NULL, lease_until = {past(place)}")
