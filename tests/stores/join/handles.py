"""A user's connection behind one face: its owner's own calls, and duly's verbs in its colour."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

import duly
from duly import Duplicate, First

T = TypeVar("T")
Answer = First | Duplicate
Values = Mapping[str, Any]


class Handle(ABC):
    """One open connection. SQL takes ``:name`` parameters, whatever the owner spells."""

    # What is passed to duly.
    connection: Any

    @abstractmethod
    async def begin(self) -> None:
        """Begin a transaction as the owner's manual says, or nothing where it begins by itself."""

    @abstractmethod
    async def commit(self) -> None:
        """Commit through the owner."""

    @abstractmethod
    async def rollback(self) -> None:
        """Roll back through the owner."""

    @abstractmethod
    async def execute(self, sql: str, values: Values | None = None) -> None:
        """Run a statement through the owner."""

    @abstractmethod
    async def fetch(self, sql: str, values: Values | None = None) -> list[tuple[Any, ...]]:
        """Run a query through the owner."""

    @abstractmethod
    def in_transaction(self) -> bool:
        """Whether the owner believes that a transaction is open."""

    @abstractmethod
    def savepoint(self) -> AbstractAsyncContextManager[Any]:
        """A savepoint of the user's own, through the owner."""

    @abstractmethod
    async def dedup(self, scope: str, key: str | bytes, *positional: Any, **options: Any) -> Answer:
        """`duly.dedup` on this connection."""

    @abstractmethod
    async def dedup_many(
        self, scope: str, keys: Iterable[str | bytes], *positional: Any, **options: Any
    ) -> list[Answer]:
        """`duly.dedup_many` on this connection."""

    @abstractmethod
    def once(
        self, scope: str, key: str | bytes, *positional: Any, **options: Any
    ) -> AbstractAsyncContextManager[Any]:
        """`duly.once` on this connection."""

    @abstractmethod
    async def newer(self, resource: str | bytes, version: Any, **options: Any) -> bool:
        """`duly.newer` on this connection."""

    @abstractmethod
    async def prune(self, **options: Any) -> int:
        """`duly.prune` on this connection."""

    @abstractmethod
    async def mark(self, turn: Any, result: Any) -> None:
        """`turn.mark` of a leased turn, in this connection's transaction."""

    @abstractmethod
    async def migrate(self, **options: Any) -> list[str]:
        """`duly.migrate` on this connection."""


class BlockingHandle(Handle):
    """duly's blocking verbs."""

    async def call(self, verb: Callable[..., T], *positional: Any, **options: Any) -> T:
        """Call a verb on the connection, and block."""
        return verb(self.connection, *positional, **options)

    async def dedup(self, scope: str, key: str | bytes, *positional: Any, **options: Any) -> Answer:
        return await self.call(duly.dedup, scope, key, *positional, **options)

    async def dedup_many(
        self, scope: str, keys: Iterable[str | bytes], *positional: Any, **options: Any
    ) -> list[Answer]:
        return await self.call(duly.dedup_many, scope, keys, *positional, **options)

    @asynccontextmanager
    async def once(
        self, scope: str, key: str | bytes, *positional: Any, **options: Any
    ) -> AsyncIterator[Any]:
        with duly.once(self.connection, scope, key, *positional, **options) as turn:
            yield turn

    async def newer(self, resource: str | bytes, version: Any, **options: Any) -> bool:
        return await self.call(duly.newer, resource, version, **options)

    async def prune(self, **options: Any) -> int:
        return await self.call(duly.prune, **options)

    async def mark(self, turn: Any, result: Any) -> None:
        await self.call(lambda connection: turn.mark(result, tx=connection))

    async def migrate(self, **options: Any) -> list[str]:
        return await self.call(duly.migrate, **options)


class AwaitedHandle(Handle):
    """duly's awaited verbs."""

    async def dedup(self, scope: str, key: str | bytes, *positional: Any, **options: Any) -> Answer:
        return await duly.aio.dedup(self.connection, scope, key, *positional, **options)

    async def dedup_many(
        self, scope: str, keys: Iterable[str | bytes], *positional: Any, **options: Any
    ) -> list[Answer]:
        return await duly.aio.dedup_many(self.connection, scope, keys, *positional, **options)

    @asynccontextmanager
    async def once(
        self, scope: str, key: str | bytes, *positional: Any, **options: Any
    ) -> AsyncIterator[Any]:
        async with duly.aio.once(self.connection, scope, key, *positional, **options) as turn:
            yield turn

    async def newer(self, resource: str | bytes, version: Any, **options: Any) -> bool:
        return await duly.aio.newer(self.connection, resource, version, **options)

    async def prune(self, **options: Any) -> int:
        return await duly.aio.prune(self.connection, **options)

    async def mark(self, turn: Any, result: Any) -> None:
        await turn.mark(result, tx=self.connection)

    async def migrate(self, **options: Any) -> list[str]:
        return await duly.aio.migrate(self.connection, **options)
