"""The SQLite duels: two files side by side on the disk that holds this checkout.

Not in the folder for temporary files, which is memory on many machines: there a commit costs
nothing, and nothing would be measured.
"""

from __future__ import annotations

import asyncio
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import aiosqlite

import duly
from benchmarks.measures import CALLERS
from benchmarks.ours import AwaitedOnSqlite, OursOnSqlite
from benchmarks.pairs import awaited_duels, blocking_duels
from benchmarks.peers.sqlite import SETTINGS, AwaitedPeer, LockedPeer, SqlitePeer, connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.duels import Duel
    from duly.stores.store import Store

DISK = Path(__file__).parent.parent / ".cache"


@contextmanager
def duels(*, lean: bool) -> Iterator[list[Duel]]:
    """Both colours on the same two files."""
    DISK.mkdir(exist_ok=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=DISK, prefix="bench-")))
        ours, theirs = folder / "ours.db", folder / "peer.db"
        duly.store(f"sqlite:///{theirs}").open().close()  # the peer's tables, made alike
        store = stack.enter_context(duly.store(f"sqlite:///{ours}"))
        connection = connect(theirs)
        stack.callback(connection.close)
        peer = SqlitePeer(connection, lean=lean)
        yield [
            *blocking_pairs(stack, store, ours, peer),
            *awaited_pairs(stack, store, folder, peer),
        ]


def blocking_pairs(stack: ExitStack, store: Store, path: Path, peer: SqlitePeer) -> list[Duel]:
    """The blocking colour."""
    given = connect(path)
    stack.callback(given.close)
    threads = stack.enter_context(ThreadPoolExecutor(CALLERS))
    return blocking_duels("sqlite", OursOnSqlite(store, given), peer, LockedPeer(peer), threads)


def awaited_pairs(stack: ExitStack, store: Store, folder: Path, peer: SqlitePeer) -> list[Duel]:
    """The awaited colour, in one event loop from the first round to the last."""
    runner = stack.enter_context(asyncio.Runner())
    thread = stack.enter_context(ThreadPoolExecutor(1))
    ours = AwaitedOnSqlite(store, lent(stack, runner, folder / "ours.db"))
    theirs = AwaitedPeer(peer, thread, lent(stack, runner, folder / "peer.db"))
    return awaited_duels("sqlite", ours, theirs, theirs, runner)


def lent(stack: ExitStack, runner: asyncio.Runner, path: Path) -> aiosqlite.Connection:
    """A user's own connection, set up like the others."""

    async def connected() -> aiosqlite.Connection:
        connection = await aiosqlite.connect(path, isolation_level=None)
        for setting in SETTINGS:
            await connection.execute_fetchall(setting)
        return connection

    connection = runner.run(connected())
    stack.callback(lambda: runner.run(connection.close()))
    return connection
