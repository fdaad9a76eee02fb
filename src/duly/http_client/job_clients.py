"""The HTTP clients of jobs: one guarded transport for threads, and one for each event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from duly.core.errors import UsageError
from duly.core.extras import install_command

if TYPE_CHECKING:
    from duly.http_client.async_transport import AsyncGuardedTransport
    from duly.http_client.clients import AsyncClient, Client
    from duly.http_client.sync_transport import GuardedTransport
    from duly.jobs.job import AsyncJob, Job
    from duly.outbox.registry import OutboxRegistry


def needs_http(what: str) -> UsageError:
    """The error of a call without httpx."""
    return UsageError(f"{what} needs httpx: {install_command('http')}")


class JobClients:
    """Opens transports at the first call, and shares them among all jobs of the process."""

    def __init__(self, outgoing: OutboxRegistry) -> None:
        self._outgoing = outgoing
        self._reset()
        JOB_CLIENTS.add(self)

    def _reset(self) -> None:
        """Forget all connections; in a forked child, too: a connection must not have two owners."""
        self._lock = threading.Lock()
        self._sync_transport: GuardedTransport | None = None
        self._async_transports: dict[asyncio.AbstractEventLoop, AsyncGuardedTransport] = {}

    def client(self, job: Job) -> Client:
        """A client for a sync job."""
        try:
            from duly.http_client.clients import Client
            from duly.http_client.sync_transport import GuardedTransport
        except ImportError as problem:
            raise needs_http("job.http") from problem
        with self._lock:
            if self._sync_transport is None:
                self._sync_transport = GuardedTransport(self._outgoing.egress)
        return Client(self._sync_transport, job.key)

    def async_client(self, job: AsyncJob) -> AsyncClient:
        """A client for an async job, in the running event loop."""
        try:
            from duly.http_client.async_transport import AsyncGuardedTransport
            from duly.http_client.clients import AsyncClient
        except ImportError as problem:
            raise needs_http("job.http") from problem
        loop: Any = asyncio.get_running_loop()
        with self._lock:
            guarded = self._async_transports.get(loop)
            if guarded is None:
                guarded = self._async_transports[loop] = AsyncGuardedTransport(
                    self._outgoing.egress
                )
        return AsyncClient(guarded, job.key, job._track)

    async def aclose_loop(self) -> None:
        """Close the connections of the running event loop."""
        with self._lock:
            guarded = self._async_transports.pop(asyncio.get_running_loop(), None)
        if guarded is not None:
            await guarded.aclose()

    def close(self) -> None:
        """Close the connections of sync jobs."""
        with self._lock:
            guarded, self._sync_transport = self._sync_transport, None
        if guarded is not None:
            guarded.close()


JOB_CLIENTS: WeakSet[JobClients] = WeakSet()


def reset_after_fork() -> None:
    """Forget the parent's connections, in a forked child."""
    for clients in list(JOB_CLIENTS):
        clients._reset()


os.register_at_fork(after_in_child=reset_after_fork)
