"""Transactions of duly's own that are open to the user's code, in each store and colour."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Literal

import duly
from duly.core.session import OpenedTransaction
from tests.support.inboxes import done, found

Colour = Literal["sync", "async"]
# A connection that was not given back would make the next one wait in vain: there is no other.
POOL = 1
SOON = timedelta(seconds=2)
WRITE = "INSERT INTO notes (note) VALUES (:note)"


class Site:
    """A store in one colour with a table of the user's."""

    def __init__(self, store: duly.types.Store, colour: Colour) -> None:
        self.store = store
        self.runner = store.sync_runner if colour == "sync" else store.async_runner

    def opened(self, wait: timedelta = SOON) -> AbstractAsyncContextManager[OpenedTransaction]:
        """A transaction for the user's code."""
        return self.runner.open_transaction(wait=wait)

    async def write(self, note: str, wait: timedelta = SOON) -> None:
        """One whole transaction."""
        async with self.opened(wait) as opened:
            await opened.session.execute(WRITE, {"note": note})

    def notes(self) -> list[str]:
        """What is committed."""
        return [note for (note,) in found(self.store, "SELECT note FROM notes ORDER BY 1")]


@asynccontextmanager
async def a_site(url: str, colour: Colour) -> AsyncIterator[Site]:
    """A site that is closed at the end, in the loop that used it."""
    async with duly.store(url, connections=POOL) as store:
        store.open()
        done(store, "CREATE TABLE notes (note text NOT NULL UNIQUE)")
        yield Site(store, colour)
        store.close()
