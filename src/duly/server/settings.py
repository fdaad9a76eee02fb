"""The settings of a server, the same in each of its processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from duly.worker.settings import CONCURRENCY, LEASE

if TYPE_CHECKING:
    from datetime import timedelta

# Shorter than the 30 seconds after which container platforms kill, with room to linger.
DRAIN: Final = 20.0
# Idle connections are closed after so many seconds.
KEEP_ALIVE: Final = 5
BACKLOG: Final = 2048


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What every process of one server knows. Plain values: they are pickled for the processes."""

    app: str
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    level: str = "info"
    access: bool = True
    json: bool = False
    drain: float = DRAIN
    linger: float = 0.0
    max_connections: int | None = None
    proxies: str | None = None
    # How many jobs of each queue run at the same time in each process; None: no worker in it.
    concurrency: int | None = CONCURRENCY
    # Whether each process also runs a relay.
    relay: bool = True
    # How long a worker may miss its heartbeat, and a relay hold a message (None: its default).
    lease: timedelta = LEASE
    relay_lease: timedelta | None = None
