"""The machine that duly's services run on in a schedule: its clocks, dice and threads.

Nothing that decides anything is replaced: duly's classes are handed this `Host` where they would
have taken the system's. A few pauses are longer or shorter than duly's own, so that a schedule is
made of steps that matter and not of idle looks.
"""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any, cast

from duly.core.host import Host
from duly.core.retry import Backoff
from duly.outbox.relay_liveness import RelayLiveness
from duly.relay.settings import RelayPauses
from duly.service.threads import Threads
from duly.worker.settings import WorkerPauses
from verification.simulation import threads
from verification.simulation.running import here

SHORT = Backoff(first=timedelta(milliseconds=200), factor=2, cap=timedelta(seconds=2))
WORKER_PAUSES = WorkerPauses(
    soonest=0.4, latest=4.0, time_limits=1.0, rescued=3.0, counters=40.0, schedules=60.0,
    rescue=SHORT,
)  # fmt: skip
RELAY_PAUSES = RelayPauses(soonest=0.4, latest=4.0, counters=40.0, closed=SHORT, rescue=SHORT)
RECEIVER_PAUSE = 15.0


class Noise(random.Random):
    """The random numbers of the schedule that plays."""

    def random(self) -> float:
        """A number from 0 up to, not, 1."""
        return here().world.noise.random()

    def getrandbits(self, bits: int, /) -> int:
        """A number of so many bits, from which the other methods are made."""
        return here().world.noise.getrandbits(bits)


class Unwatched(RelayLiveness):
    """Looks for no relays: a warning is all that it would be."""

    def is_check_due(self) -> bool:
        """Never."""
        return False


def monotonic() -> float:
    """Seconds on the clock of the schedule that plays."""
    return here().world.now / 1_000_000


def time_ns() -> int:
    """Nanoseconds since 1970, as the machine's clock shows them."""
    return here().world.wall * 1000


HOST = Host(
    monotonic=monotonic,
    time_ns=time_ns,
    random=Noise(),
)
THREADS = Threads(
    cast("Any", threads.Thread), cast("Any", threads.Event), cast("Any", threads.SimpleQueue)
)
