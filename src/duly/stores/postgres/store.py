"""The PostgreSQL store: duly's own connections, through psycopg, sync and async."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Self

import psycopg

from duly.core.onestep import finish
from duly.stores.postgres.connect import (
    Durability,
    PostgresTarget,
    connection_settings,
    inspect_server,
    refuse_unsafe,
)
from duly.stores.postgres.listen import listen
from duly.stores.postgres.psycopg_adapters import PsycopgAdapter
from duly.stores.postgres.retry import raise_store_error
from duly.stores.postgres.runners import PostgresAsyncRunner, PostgresSyncRunner
from duly.stores.sql.migrations import apply_next, check_schema, schema_version
from duly.stores.store import Capabilities, Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.core.clock import Clock
    from duly.core.defaults import Names
    from duly.stores.sql.migrations import SchemaVersion

# Another migrator may be changing a large table.
MIGRATION_WAIT = timedelta(minutes=1)


class PostgresStore(Store):
    """A PostgreSQL database, shared by any number of machines."""

    def __init__(
        self,
        url: str,
        names: Names,
        clock: Clock | None,
        *,
        durability: Durability = "required",
        connections: int = 10,
    ) -> None:
        super().__init__(url, names, clock)
        self.capabilities = Capabilities(concurrent_writers=True, durable=True, many_machines=True)
        self._target = PostgresTarget(
            connection_settings(url), names, clock, durability, connections
        )
        self.sync_runner: PostgresSyncRunner = PostgresSyncRunner(self._target)
        self.async_runner: PostgresAsyncRunner = PostgresAsyncRunner(self._target)

    def open(self) -> Self:
        """Connect now: refuse an unsafe server, a missing and a wrong schema."""
        self.sync_runner.pool()
        return self

    def close(self) -> None:
        """Close the pool of the sync runner."""
        self.sync_runner.close()

    async def aclose_loop(self) -> None:
        """Close the running loop's pool."""
        await self.async_runner.close()

    async def aclose(self) -> None:
        """Close the running loop's pool and that of the sync runner."""
        await self.async_runner.close()
        self.sync_runner.close()

    def apart(self) -> Store:
        """Another store on the same database, through one connection of its own."""
        durability = self._target.durability
        return PostgresStore(self.url, self.names, self.clock, durability=durability, connections=1)

    async def listen(self, heard: Callable[[], None]) -> bool:
        """Call ``heard`` at each notification until cancelled; False where none can arrive."""
        return await listen(self._target, heard)

    def migrate(self) -> list[str]:
        """Apply what is missing, each migration in a transaction of its own."""
        applied: list[str] = []
        with self._connect() as connection:
            session = self._target.session(PsycopgAdapter(connection), MIGRATION_WAIT)
            refuse_unsafe(finish(inspect_server(session)), self._target.durability)
            while True:
                with connection.transaction():
                    name = finish(apply_next(session))
                if name is None:
                    return applied
                applied.append(name)

    def schema_version(self) -> SchemaVersion:
        """What the tables are at."""
        with self._connect() as connection:
            return finish(schema_version(self._target.session(PsycopgAdapter(connection))))

    def check(self) -> None:
        """Raise unless this duly can run on the tables as they are."""
        with self._connect() as connection:
            finish(check_schema(self._target.session(PsycopgAdapter(connection))))

    def _connect(self) -> psycopg.Connection[tuple[object, ...]]:
        try:
            # Nothing prepared: whether a pooler stands in between is not known here.
            return psycopg.connect(**self._target.settings, prepare_threshold=None)
        except psycopg.Error as problem:
            raise_store_error(problem)
