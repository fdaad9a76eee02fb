"""What is beside duly in a storm: a sender, a receiver downstream, a proxy, a holder of locks."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

from duly.demo.context import FAILED, StormContext
from duly.demo.downstream import DownstreamConnection, DownstreamReceiver
from duly.demo.proxy import ClientEnd, Proxy
from duly.demo.sender import StormSender
from duly.demo.shared_counters import CounterIndex
from duly.server.shutdown import leave_at_once
from duly.service.service_thread import new_event_loop

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from duly.demo.databases import Server


def run_sender(context: StormContext) -> int:
    """Send events, and save the books."""
    port = context.ingress.getsockname()[1]

    async def main() -> int:
        books = await StormSender(context.settings, context.shared, port).run()
        books.save(context.file("sender.json"))
        context.shared[CounterIndex.SENDER_DONE] = 1
        return 0

    return run_loop(context, main())


def run_downstream(context: StormContext) -> int:
    """Receive messages downstream."""
    receiver = DownstreamReceiver(context.settings, context.shared, context.file("downstream.db"))
    return run_loop(
        context,
        serve_until_signal(context.downstream, lambda: DownstreamConnection(receiver)),
        on_parent_exit=remove_folder,
    )


def run_proxy(context: StormContext, server: Server) -> int:
    """Carry what goes between duly and its server."""
    proxy = Proxy(server, context.shared, context.settings.dice("proxy"))
    return run_loop(context, serve_until_signal(context.proxy, lambda: ClientEnd(proxy)))


def hold_write_lock(_context: StormContext, path: Path, seconds: float) -> int:
    """Keep the write lock of a SQLite file for a while, as a careless program does."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=10.0)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        time.sleep(seconds)
        connection.execute("ROLLBACK")
    return 0


def remove_folder(context: StormContext) -> None:
    """Whoever directs the storm was killed, and cannot remove its folder any more."""
    if not context.settings.keep:
        shutil.rmtree(context.settings.folder, ignore_errors=True)


def run_loop(
    context: StormContext,
    main: Coroutine[Any, Any, int],
    *,
    on_parent_exit: Callable[[StormContext], None] = lambda _: None,
) -> int:
    """Run on the fastest event loop until the lifeline ends; then ``on_parent_exit`` runs."""

    def leave() -> None:
        on_parent_exit(context)
        leave_at_once(FAILED)

    async def whole() -> int:
        asyncio.get_running_loop().add_reader(context.lifeline[0], leave)
        return await main

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(whole())


async def serve_until_signal(
    listener: socket.socket, protocol: Callable[[], asyncio.Protocol]
) -> int:
    """Serve on a socket until told to end."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    await loop.create_server(protocol, sock=listener)
    await ended.wait()
    return 0
