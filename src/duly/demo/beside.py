"""What is beside duly in a storm: a sender, a receiver downstream, a proxy, a holder of locks."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

from duly.demo.downstream import Reading, Receiver
from duly.demo.proxy import ClientEnd, Proxy
from duly.demo.sender import Sender
from duly.demo.shared import Place
from duly.demo.world import FAILED, World
from duly.server.shutdown import leave_at_once
from duly.service.service_thread import event_loop

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from duly.demo.databases import Server


def send(world: World) -> int:
    """Send events, and save the books."""
    port = world.ingress.getsockname()[1]

    async def main() -> int:
        books = await Sender(world.settings, world.shared, port).run()
        books.save(world.file("sender.json"))
        world.shared[Place.SENDER_DONE] = 1
        return 0

    return looped(world, main())


def listen(world: World) -> int:
    """Receive messages downstream."""
    receiver = Receiver(world.settings, world.shared, world.file("downstream.db"))
    return looped(world, served(world.downstream, lambda: Reading(receiver)), left=cleared)


def carry(world: World, server: Server) -> int:
    """Carry what goes between duly and its server."""
    proxy = Proxy(server, world.shared, world.settings.dice("proxy"))
    return looped(world, served(world.proxy, lambda: ClientEnd(proxy)))


def hold(_world: World, path: Path, seconds: float) -> int:
    """Keep the write lock of a SQLite file for a while, as a careless program does."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=10.0)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        time.sleep(seconds)
        connection.execute("ROLLBACK")
    return 0


def cleared(world: World) -> None:
    """Whoever directs the storm was killed, and cannot remove its folder any more."""
    if not world.settings.keep:
        shutil.rmtree(world.settings.folder, ignore_errors=True)


def looped(
    world: World,
    main: Coroutine[Any, Any, int],
    *,
    left: Callable[[World], None] = lambda _: None,
) -> int:
    """Run on the fastest event loop, for as long as the lifeline lasts; ``left`` is for its end."""

    def leave() -> None:
        left(world)
        leave_at_once(FAILED)

    async def whole() -> int:
        asyncio.get_running_loop().add_reader(world.lifeline[0], leave)
        return await main

    with asyncio.Runner(loop_factory=event_loop) as runner:
        return runner.run(whole())


async def served(listener: socket.socket, protocol: Callable[[], asyncio.Protocol]) -> int:
    """Serve on a socket until told to end."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    await loop.create_server(protocol, sock=listener)
    await ended.wait()
    return 0
