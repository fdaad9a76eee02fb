"""An actor: one thread with an event loop and one connection of its own.

A blocking connection that waits for a lock stops only its own actor, so the same test body serves
both colours, and two actors really do run at the same time.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import Future
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from tests.support.sizes import sized

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from tests.stores.join.ways import Handle, Way

T = TypeVar("T")
# Connections open at the same time: two test processes together must fit into one server.
MOST = sized(12, whole=40)


class Actor:
    """Holds one open connection and does what it is told, one thing after another.

    Everything runs in one context, because Django finds its connections by it.
    """

    def __init__(self, way: Way, url: str) -> None:
        self.way = way
        self._url = url
        self._context = contextvars.copy_context()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._stack = AsyncExitStack()
        self._handle: Handle | None = None

    async def start(self) -> None:
        """Start the thread and open the connection on it."""
        self._thread.start()
        await asyncio.wrap_future(self._submit(self._open()))

    async def _open(self) -> None:
        self._handle = await self._stack.enter_async_context(self.way.open(self._url))

    async def do(self, action: Callable[[Handle], Awaitable[T]]) -> T:
        """Do something with the connection and wait for it without stopping anybody else."""
        return await asyncio.wrap_future(self.begin_to(action))

    def begin_to(self, action: Callable[[Handle], Awaitable[T]]) -> Future[T]:
        """Start doing something with the connection."""

        async def acting() -> T:
            assert self._handle is not None
            return await action(self._handle)

        return self._submit(acting())

    async def close(self) -> None:
        """Close the connection and end the thread."""
        await asyncio.wrap_future(self._submit(self._close()))
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join)
        self._loop.close()

    async def _close(self) -> None:
        await self._stack.aclose()
        await self._loop.shutdown_default_executor()

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the actor's loop, in the actor's context."""
        promised: Future[T] = Future()

        def start() -> None:
            task = self._loop.create_task(work, context=self._context)
            task.add_done_callback(lambda done: settle(promised, done))

        self._loop.call_soon_threadsafe(start)
        return promised


def settle(promised: Future[T], done: asyncio.Task[T]) -> None:
    """Hand the outcome of a task over to another thread."""
    error = done.exception()
    if error is None:
        promised.set_result(done.result())
    else:
        promised.set_exception(error)


class Actors:
    """A growing group of actors over one way and one database."""

    def __init__(self, way: Way, url: str) -> None:
        self.way = way
        self.url = url
        self._all: list[Actor] = []
        self._idle: list[Actor] = []
        self._places = asyncio.Semaphore(MOST)

    async def one(self) -> Actor:
        """An actor nobody is using; give it back with `back`."""
        if self._idle:
            return self._idle.pop()
        actor = Actor(self.way, self.url)
        await actor.start()
        self._all.append(actor)
        return actor

    def back(self, actor: Actor) -> None:
        """Give an actor back, its transaction ended."""
        self._idle.append(actor)

    async def many(self, count: int) -> list[Actor]:
        """Several actors at once, connected one after another."""
        return [await self.one() for _ in range(count)]

    async def committed(self, action: Callable[[Handle], Coroutine[Any, Any, T]]) -> T:
        """Do something in a transaction of its own and commit it."""

        async def in_transaction(handle: Handle) -> T:
            await handle.begin()
            try:
                answer = await action(handle)
            except BaseException:
                await handle.rollback()
                raise
            await handle.commit()
            return answer

        async with self._places:
            actor = await self.one()
            try:
                return await actor.do(in_transaction)
            finally:
                self.back(actor)

    async def close(self) -> None:
        """Close every connection."""
        for actor in self._all:
            await actor.close()
