"""Django: ``connections[alias]`` inside ``atomic``, a fresh alias for each that is opened."""

import os
import threading
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import django
from django.conf import settings
from django.db import connections, transaction
from psycopg.conninfo import conninfo_to_dict

from duly.stores.sql.placeholders import prepare
from tests.stores.join.handles import BlockingHandle, Values
from tests.stores.join.sqlite_handles import path_of

SETUP = threading.Lock()


class DjangoHandle(BlockingHandle):
    """A connection of Django's, by its alias."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.connection = connections[alias]

    async def begin(self) -> None:
        self._atomic = transaction.atomic(using=self.alias)
        self._atomic.__enter__()

    async def commit(self) -> None:
        self._atomic.__exit__(None, None, None)

    async def rollback(self) -> None:
        transaction.set_rollback(True, using=self.alias)
        self._atomic.__exit__(None, None, None)

    async def execute(self, sql: str, values: Values | None = None) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(*spelled(sql, values))

    async def fetch(self, sql: str, values: Values | None = None) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(*spelled(sql, values))
            return [tuple(row) for row in cursor.fetchall()]

    def in_transaction(self) -> bool:
        return bool(self.connection.in_atomic_block)

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        with transaction.atomic(using=self.alias):
            yield


def spelled(sql: str, values: Values | None) -> tuple[str, Values | None]:
    """Django takes percent signs literally where there are no parameters."""
    return (prepare(sql, "pyformat").text, values) if values else (sql, None)


@asynccontextmanager
async def django_handle(url: str) -> AsyncIterator[DjangoHandle]:
    """Make a database known to Django, and forget it at the end."""
    alias = f"joining_{uuid.uuid4().hex}"
    configured()
    connections.settings.update(
        connections.configure_settings({"default": {}, alias: database(url)})
    )
    try:
        yield DjangoHandle(alias)
    finally:
        connections[alias].close()
        del connections[alias]
        del connections.settings[alias]


def configured() -> None:
    """Set Django up once for this process, whichever thread asks first."""
    with SETUP:
        if not settings.configured:
            settings.configure(DATABASES={"default": {}}, USE_TZ=True)
            django.setup()
    # Test bodies run in an event loop, where Django would refuse to block.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"


def database(url: str) -> dict[str, Any]:
    """One entry of DATABASES."""
    if url.startswith("sqlite:"):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": path_of(url)}
    parts = conninfo_to_dict(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts["dbname"],
        "USER": parts.get("user", ""),
        "PASSWORD": parts.get("password", ""),
        "HOST": parts.get("host", ""),
        "PORT": parts.get("port", ""),
    }
