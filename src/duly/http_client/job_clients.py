"""Who makes HTTP calls for jobs: one guarded pool of connections for threads, one for each loop."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from duly.core.errors import Misuse
from duly.core.extras import installing

if TYPE_CHECKING:
    from duly.http_client.async_transport import AsyncGuarded
    from duly.http_client.clients import AsyncClient, Client
    from duly.http_client.sync_transport import Guarded
    from duly.jobs.job import AsyncJob, Job
    from duly.outbox.registry import Outgoing


def needs_http(what: str) -> Misuse:
    """The error of a call without the library for it."""
    return Misuse(f"{what} needs httpx: {installing('http')}")


class Callers:
    """Opens what it needs at the first call, and shares it among all jobs of the process."""

    def __init__(self, outgoing: Outgoing) -> None:
        self._outgoing = outgoing
        self._begin()
        CALLERS.add(self)

    def _begin(self) -> None:
        """With nothing open; in a forked child, too: a connection must not have two owners."""
        self._lock = threading.Lock()
        self._guarded: Guarded | None = None
        self._awaited: dict[asyncio.AbstractEventLoop, AsyncGuarded] = {}

    def client(self, job: Job) -> Client:
        """A client for a job that blocks."""
        try:
            from duly.http_client.clients import Client
            from duly.http_client.sync_transport import Guarded
        except ImportError as problem:
            raise needs_http("job.http") from problem
        with self._lock:
            if self._guarded is None:
                self._guarded = Guarded(self._outgoing.egress)
        return Client(self._guarded, job.key)

    def awaited(self, job: AsyncJob) -> AsyncClient:
        """A client for a job that is awaited, in the running event loop."""
        try:
            from duly.http_client.async_transport import AsyncGuarded
            from duly.http_client.clients import AsyncClient
        except ImportError as problem:
            raise needs_http("job.http") from problem
        loop: Any = asyncio.get_running_loop()
        with self._lock:
            guarded = self._awaited.get(loop)
            if guarded is None:
                guarded = self._awaited[loop] = AsyncGuarded(self._outgoing.egress)
        return AsyncClient(guarded, job.key, job._promised)

    async def aclose_loop(self) -> None:
        """Close what belongs to the running event loop."""
        with self._lock:
            guarded = self._awaited.pop(asyncio.get_running_loop(), None)
        if guarded is not None:
            await guarded.aclose()

    def close(self) -> None:
        """Close what threads have used."""
        with self._lock:
            guarded, self._guarded = self._guarded, None
        if guarded is not None:
            guarded.close()


CALLERS: WeakSet[Callers] = WeakSet()


def begin_anew() -> None:
    """After a fork, in the child."""
    for callers in list(CALLERS):
        callers._begin()


os.register_at_fork(after_in_child=begin_anew)
