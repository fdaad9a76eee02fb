"""Thousands of malformed requests change nothing for other clients."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.server.hostile.crowds import healthy_meanwhile, provoked, sent
from tests.server.hostile.malformed import KINDS, malformed, odd_body
from tests.server.hostile.servers import MEGABYTE, serving
from tests.server.hostile.wire import BODY, delivery
from tests.support.sizes import sized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.server.hostile.servers import Server

pytestmark = pytest.mark.slow

REQUESTS = sized(3_000, whole=10_000)
CONNECTIONS = 32
HEALTHY = 3  # requests that must have been answered meanwhile
SEED = 20260101
# How long a client waits for more before it hangs up.
PATIENCE = 0.05
# Seen: 5 MB.
ROOM = 40 * MEGABYTE


async def provoke(server: Server, numbers: Iterator[int], seen: Counter[str]) -> None:
    """One client after another, as long as there are numbers; the requests depend on them alone."""
    for number in numbers:
        raw = malformed(Random(SEED + number), number)
        found = await provoked(server.address, raw, PATIENCE)
        seen.update(str(answer.status) for answer in found)
        seen["no answer"] += not found
        unwanted = [answer for answer in found if answer.status >= 500 and answer.status != 501]
        assert not unwanted, (number, raw[:500], unwanted)


async def provoke_all(server: Server, requests: int) -> tuple[Counter[str], str]:
    seen: Counter[str] = Counter()
    numbers = iter(range(requests))
    async with healthy_meanwhile(server.address, "healthy") as healthy:
        await asyncio.gather(*[provoke(server, numbers, seen) for _ in range(CONNECTIONS)])
        while healthy.said.total() < HEALTHY:  # on a busy machine they may have had no turn yet
            await provoke(server, iter(range(CONNECTIONS)), seen)
    healthy.check(at_least=HEALTHY, within=5.0)
    return seen, str(healthy)


def test_thousands_of_malformed_requests_break_nothing(
    tmp_path: Path, say: Callable[[str], None]
) -> None:
    path = tmp_path / "duly.db"
    with serving(f"sqlite:///{path}", tmp_path) as server:
        before = server.memory()
        seen, healthy = asyncio.run(provoke_all(server, REQUESTS))
        peak = server.memory("VmHWM")
        server.check_alive()
        assert peak - before < ROOM, f"{before} bytes became {peak}"
    assert seen["400"] > REQUESTS / 20
    assert seen["200"] > REQUESTS / 200
    check_rows(path)
    told = ", ".join(f"{status} x {count}" for status, count in sorted(seen.items()))
    say(
        f"{REQUESTS} malformed requests: {told}; {healthy}; memory {before // MEGABYTE} MB before, "
        f"{peak // MEGABYTE} MB at most"
    )


def check_rows(path: Path) -> None:
    """What is in the database was signed: nothing that was changed on the way got there."""
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT event_id, source, body FROM duly_events").fetchall()
    claims = connection.execute("SELECT count(*) FROM duly_claims").fetchone()[0]
    connection.close()
    assert len(rows) == claims == len({(event_id, source) for event_id, source, _ in rows})
    for event_id, _, body in rows:
        who, _, number = event_id.partition("_")
        if who == "odd" and Random(SEED + int(number)).choice(KINDS) is odd_body:
            assert malformed(Random(SEED + int(number)), int(number)).endswith(b"\r\n\r\n" + body)
        else:
            assert (who in ("odd", "healthy"), body) == (True, BODY)


@pytest.mark.parametrize("kind", ["duly", "uvicorn"])
def test_malformed_requests_break_nothing_on_postgres(
    kind: str, own_postgres_url: str, tmp_path: Path, say: Callable[[str], None]
) -> None:
    with serving(own_postgres_url, tmp_path, server=kind) as server:
        seen, healthy = asyncio.run(provoke_all(server, REQUESTS // 5))
        server.check_alive()
        assert asyncio.run(sent(server.address, delivery("last"))) is not None
    say(f"{REQUESTS // 5} malformed requests on PostgreSQL, {kind}: {seen['400']} x 400; {healthy}")
