"""Who makes HTTP calls for jobs: one guarded pool of connections for threads, one for each loop."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from duly._kernel.errors import Misuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.outbox.outgoing import Outgoing
    from duly.runtime.calling.clients import AsyncClient, Client
    from duly.runtime.calling.transports import AsyncGuarded, Guarded


def needs_http(what: str) -> Misuse:
    """The error of a call without the library for it."""
    return Misuse(f"{what} needs httpx: pip install 'duly[http]'")


class Callers:
    """Opens what it needs at the first call, and shares it among all jobs of the process."""

    def __init__(self, outgoing: Outgoing) -> None:
        self._outgoing = outgoing
        self._lock = threading.Lock()
        self._guarded: Guarded | None = None
        self._awaited: dict[asyncio.AbstractEventLoop, AsyncGuarded] = {}

    def client(self, key_of: Callable[[str], str]) -> Client:
        """A client for a job that blocks."""
        try:
            from duly.runtime.calling.clients import Client
            from duly.runtime.calling.transports import Guarded
        except ImportError as problem:
            raise needs_http("job.http") from problem
        with self._lock:
            if self._guarded is None:
                self._guarded = Guarded(self._outgoing.egress)
        return Client(self._guarded, key_of)

    def awaited(self, key_of: Callable[[str], str]) -> AsyncClient:
        """A client for a job that is awaited, in the running event loop."""
        try:
            from duly.runtime.calling.clients import AsyncClient
            from duly.runtime.calling.transports import AsyncGuarded
        except ImportError as problem:
            raise needs_http("job.http") from problem
        loop: Any = asyncio.get_running_loop()
        with self._lock:
            guarded = self._awaited.get(loop)
            if guarded is None:
                guarded = self._awaited[loop] = AsyncGuarded(self._outgoing.egress)
        return AsyncClient(guarded, key_of)

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
