"""What the suite is run over: a store in one colour, or a joined connection type.

Each subject answers the same few calls, each of them committed before it returns.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import duly
from duly import Duplicate, First
from tests.ledger.conformance.actors import Actors
from tests.stores.join.ways import WAYS, Way
from tests.support.sizes import sized

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from duly.types import Store
    from tests.conftest import HandClock

T = TypeVar("T")
Answer = First | Duplicate
Kind = Literal["sqlite", "postgres", "memory"]
# More callers at once than any pool has connections, and than any group of actors.
CROWD, GROUP = 200, sized(50, whole=200)


class Subject(Protocol):
    """Something that can be asked who is first."""

    clock: HandClock
    kind: Kind

    async def dedup(self, scope: str, key: str | bytes, **options: Any) -> Answer:
        """Claim and commit."""

    async def dedup_many(
        self, scope: str, keys: Iterable[str | bytes], **options: Any
    ) -> list[Answer]:
        """Claim a batch and commit."""

    async def newer(self, resource: str, version: Any, **options: Any) -> bool:
        """Record a version and commit."""

    async def prune(self, limit: int = 1000) -> int:
        """Forget and commit."""


class BlockingStore:
    """A store called from threads."""

    def __init__(self, store: Store, kind: Kind, clock: HandClock) -> None:
        self.store, self.kind, self.clock = store, kind, clock
        self._threads = ThreadPoolExecutor(CROWD)

    async def call(self, verb: Callable[..., T], *positional: Any, **options: Any) -> T:
        """Call a blocking verb on a thread of its own."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: verb(*positional, **options))

    async def dedup(self, scope: str, key: str | bytes, **options: Any) -> Answer:
        return await self.call(duly.dedup, self.store, scope, key, **options)

    async def dedup_many(
        self, scope: str, keys: Iterable[str | bytes], **options: Any
    ) -> list[Answer]:
        return await self.call(duly.dedup_many, self.store, scope, keys, **options)

    async def newer(self, resource: str, version: Any, **options: Any) -> bool:
        return await self.call(duly.newer, self.store, resource, version, **options)

    async def prune(self, limit: int = 1000) -> int:
        return await self.call(duly.prune, self.store, limit=limit)

    @asynccontextmanager
    async def leased(self, scope: str, key: str, **options: Any) -> AsyncIterator[Any]:
        """A leased turn whose verbs are awaited."""
        once = duly.once(self.store, scope, key, **options)
        turn = await self.call(once.__enter__)
        try:
            yield AwaitedTurn(self, turn)
        except BaseException as error:
            await self.call(once.__exit__, type(error), error, error.__traceback__)
            raise
        await self.call(once.__exit__, None, None, None)

    async def close(self) -> None:
        self.store.close()
        self._threads.shutdown()


class AwaitedTurn:
    """A blocking leased turn, its verbs moved to a thread."""

    def __init__(self, subject: BlockingStore, turn: Any) -> None:
        object.__setattr__(self, "_subject", subject)
        object.__setattr__(self, "_turn", turn)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._turn, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._turn, name, value)

    async def mark(self, *positional: Any, **options: Any) -> None:
        await self._subject.call(self._turn.mark, *positional, **options)

    async def renew(self) -> None:
        await self._subject.call(self._turn.renew)


class AwaitedStore:
    """A store awaited from tasks of one event loop."""

    def __init__(self, store: Store, kind: Kind, clock: HandClock) -> None:
        self.store, self.kind, self.clock = store, kind, clock

    async def dedup(self, scope: str, key: str | bytes, **options: Any) -> Answer:
        return await duly.aio.dedup(self.store, scope, key, **options)

    async def dedup_many(
        self, scope: str, keys: Iterable[str | bytes], **options: Any
    ) -> list[Answer]:
        return await duly.aio.dedup_many(self.store, scope, keys, **options)

    async def newer(self, resource: str, version: Any, **options: Any) -> bool:
        return await duly.aio.newer(self.store, resource, version, **options)

    async def prune(self, limit: int = 1000) -> int:
        return await duly.aio.prune(self.store, limit=limit)

    @asynccontextmanager
    async def leased(self, scope: str, key: str, **options: Any) -> AsyncIterator[Any]:
        """A leased turn."""
        async with duly.aio.once(self.store, scope, key, **options) as turn:
            yield turn

    async def close(self) -> None:
        await self.store.aclose()


StoreSubject = BlockingStore | AwaitedStore


class JoinedSubject:
    """A connection type of the user's: each call is a transaction on a connection of its own."""

    def __init__(self, way: Way, url: str, clock: HandClock) -> None:
        self.kind: Kind = way.store
        self.clock = clock
        self.actors = Actors(way, url)

    async def dedup(self, scope: str, key: str | bytes, **options: Any) -> Answer:
        return await self.actors.committed(
            lambda handle: handle.dedup(scope, key, clock=self.clock, **options)
        )

    async def dedup_many(
        self, scope: str, keys: Iterable[str | bytes], **options: Any
    ) -> list[Answer]:
        return await self.actors.committed(
            lambda handle: handle.dedup_many(scope, keys, clock=self.clock, **options)
        )

    async def newer(self, resource: str, version: Any, **options: Any) -> bool:
        return await self.actors.committed(
            lambda handle: handle.newer(resource, version, **options)
        )

    async def prune(self, limit: int = 1000) -> int:
        return await self.actors.committed(
            lambda handle: handle.prune(limit=limit, clock=self.clock)
        )

    async def close(self) -> None:
        await self.actors.close()


@dataclass(frozen=True, slots=True)
class Case:
    """One subject by name, made when a test asks for it."""

    name: str
    kind: Kind
    make: Callable[[str, HandClock], StoreSubject | JoinedSubject]
    crowd: int = CROWD
    wide: bool = False

    @asynccontextmanager
    async def open(self, url: str, clock: HandClock) -> AsyncIterator[Any]:
        """The subject over a database, closed at the end."""
        subject = self.make(url, clock)
        try:
            yield subject
        finally:
            await subject.close()


def store_case(kind: Kind, colour: Literal["sync", "async"]) -> Case:
    """A store in one colour."""
    wrap = BlockingStore if colour == "sync" else AwaitedStore

    def make(url: str, clock: HandClock) -> StoreSubject:
        return wrap(duly.store(url, clock=clock), kind, clock)

    return Case(f"{kind}-{colour}", kind, make)


def way_case(way: Way) -> Case:
    """A joined connection type."""
    return Case(
        way.name, way.store, lambda url, clock: JoinedSubject(way, url, clock), GROUP, way.wide
    )


KINDS: tuple[Kind, ...] = ("sqlite", "postgres", "memory")
COLOURS: tuple[Literal["sync", "async"], ...] = ("sync", "async")
STORE_CASES = [store_case(kind, colour) for kind in KINDS for colour in COLOURS]
WAY_CASES = [way_case(way) for way in WAYS]
CASES = [*STORE_CASES, *WAY_CASES]
