"""How an application is to be served: everything the command line says, for every process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from duly.worker.settings import CONCURRENCY, LEASE

if TYPE_CHECKING:
    from datetime import timedelta

# Shorter than the 30 seconds after which container platforms kill, with room to linger.
DRAIN: Final = 20.0
# Connections of a client that asks nothing more are closed after so many seconds.
KEEP_ALIVE: Final = 5
BACKLOG: Final = 2048
LEVELS: Final = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What every process of one server knows. Plain values: they are sent to the workers."""

    app: str
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    level: str = "info"
    access: bool = True
    json: bool = False
    drain: float = DRAIN
    linger: float = 0.0
    most: int | None = None
    proxies: str | None = None
    # How many jobs of each queue run at the same time in each process; None: no worker in it.
    concurrency: int | None = CONCURRENCY
    # Whether each process also sends what is staged in the outbox.
    relay: bool = True
    # How long the worker of a process may be silent, and its relay have a message; None: the
    # relay's own default.
    lease: timedelta = LEASE
    relay_lease: timedelta | None = None
