"""`Store`: a database that runs operations in transactions of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from duly.core.exports import export_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.core.clock import Clock
    from duly.core.defaults import Names
    from duly.core.session import Runner
    from duly.stores.sql.migrations import SchemaVersion


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store can do; tests skip by these and by nothing else."""

    # Two transactions can write at the same time.
    concurrent_writers: bool
    # A commit that was acknowledged survives a power cut.
    durable: bool
    # Processes on other machines can use it too.
    many_machines: bool


@export_type
class Store(ABC):
    """An opened database. Use it from any thread and any event loop; close it when done.

    ``sync_runner`` and ``async_runner`` run the same operations, one on the calling thread, one
    awaited. Connections are opened at the first use, or by ``open()``, which raises what is wrong
    at once.
    """

    capabilities: Capabilities
    # Whether a connection whose commits a power cut may lose is refused.
    strict: bool = True
    sync_runner: Runner
    async_runner: Runner

    def __init__(self, url: str, names: Names, clock: Clock | None) -> None:
        self.url = url
        self.names = names
        self.clock = clock

    @abstractmethod
    def open(self) -> Self:
        """Connect and check the schema now."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections of the sync runner."""

    @abstractmethod
    async def aclose_loop(self) -> None:
        """Close the connections of the running event loop, before it ends."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close every connection, those of the running event loop included."""

    @abstractmethod
    def apart(self) -> Store:
        """Another store on the same database, with connections of its own to close."""

    async def listen(self, heard: Callable[[], None]) -> bool:  # noqa: ARG002
        """Call ``heard`` at each notification of a new job; return False where there are none."""
        return False

    @abstractmethod
    def migrate(self) -> list[str]:
        """Bring the tables to this duly's schema; returns the names of what was applied."""

    @abstractmethod
    def schema_version(self) -> SchemaVersion:
        """What the tables are at. Changes nothing."""

    def version(self) -> int:
        """The schema version of the tables, 0 where there are none. Changes nothing."""
        return self.schema_version().migrated_to

    @abstractmethod
    def check(self) -> None:
        """Raise unless this duly can run on the tables as they are. Changes nothing."""

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
