"""The same by twenty: each worker on a connection of its own, the client shared by all."""

from __future__ import annotations

import asyncio

import httpx
import psycopg

from benchmarks.relaying.contenders import AT_ONCE
from benchmarks.relaying.players.by_hand import LEFT, SENT, headers, prepare, staging

__all__ = ["LEFT", "prepare", "relay", "staging"]

NEXT = """
SELECT id, message, url, body FROM outbox WHERE sent_at IS NULL ORDER BY id LIMIT 1
   FOR UPDATE SKIP LOCKED
"""


def relay(url: str, port: int) -> None:  # noqa: ARG001
    asyncio.run(together(url))


async def together(url: str) -> None:
    connected = asyncio.Barrier(AT_ONCE)
    async with httpx.AsyncClient() as client, asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work(url, client, connected))


async def work(url: str, client: httpx.AsyncClient, connected: asyncio.Barrier) -> None:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connected.wait()
        while row := await (await connection.execute(NEXT)).fetchone():
            number, message, to, body = row
            answer = await client.post(to, content=body, headers=headers(message))
            answer.raise_for_status()
            await connection.execute(SENT, (number,))
            await connection.commit()
