"""The sender: delivers at least once, badly, and repeats what was not acknowledged."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from duly.demo.context import CounterIndex
from duly.demo.events import Catalog
from duly.demo.sender_connection import SenderAnswer, SenderConnection
from duly.demo.sender_log import ACKNOWLEDGED, FIRST, REPLAYED, SECOND, SENT, SenderLog
from duly.demo.traffic import (
    ALLOWED_STATUSES,
    DeliveryKind,
    DeliveryWriter,
    PlannedDelivery,
    Traffic,
)

if TYPE_CHECKING:
    from duly.demo.context import SharedCounters
    from duly.demo.settings import Settings

# Connections, and so deliveries on their way at the same time.
CONNECTIONS = 64
# Seconds without an answer: longer than the five after which duly's receiver gives up.
PATIENCE = 7.0
TICK = 0.02
# The share of deliveries whose sender hangs up before it has read the answer.
HANGS_UP = 0.05
# Events that may be accepted and not handled yet: with more, the faults would end before most of
# the work has begun.
BACKLOG = 3000
# Seconds by which copies are late, at most.
LATER = 60.0
# The share of the storm after which no event kills any more: each of them costs five processes.
KILLING = 0.5
# How many times the deliveries that were asked for, at most, until every kind of fault was seen.
MOST_EXTRA = 3.0

FLAGS = {
    DeliveryKind.GENUINE: ACKNOWLEDGED,
    DeliveryKind.CHANGED: SECOND,
    DeliveryKind.CONFLICT: SECOND,
    DeliveryKind.REPLAYED: REPLAYED,
}
COUNTED = {
    "accepted": CounterIndex.ACCEPTED,
    "duplicate": CounterIndex.DUPLICATE,
    "conflict": CounterIndex.CONFLICT,
}


class StormSender:
    """Sends until every event is acknowledged."""

    def __init__(self, settings: Settings, shared: SharedCounters, port: int) -> None:
        self._settings = settings
        self._shared = shared
        self._port = port
        later = min(LATER, settings.expected_seconds / 4)
        self._dice = settings.dice("sender")
        self._catalog = Catalog(settings.seed)
        self._traffic = Traffic(self._catalog, settings.dice("traffic"), later=later)
        self._writer = DeliveryWriter(settings.seed)
        self._connections: set[SenderConnection] = set()
        self._free: list[SenderConnection] = []
        self._owed: set[tuple[int, DeliveryKind]] = set()
        self.log = SenderLog()
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> SenderLog:
        """Send until everything is acknowledged, and return the log."""
        started = self._loop.time()
        for _ in range(CONNECTIONS):
            self._connect()
        while not self._is_done():
            await asyncio.sleep(TICK)
            now = self._loop.time()
            self._check_limits(now - started)
            for one in list(self._connections):
                if one.delivery and now - one.since > PATIENCE:
                    one.drop()
            while self._free and self._send_next(now):
                pass
        self.log.calm_from = self._catalog.calm_from
        return self.log

    def _is_done(self) -> bool:
        busy = any(one.delivery for one in self._connections)
        return not (self._traffic.open or self._owed or self._traffic.planned_count or busy)

    def _check_limits(self, elapsed: float) -> None:
        shared, most = self._shared, self._settings.deliveries
        share = self.log.deliveries / most if most else elapsed / (self._settings.seconds or 1.0)
        if share > KILLING:
            self._traffic.stop_killers()
        # On a fast machine a small storm would be over before every fault was seen.
        enough = most is not None and share >= (
            1.0 if shared[CounterIndex.ALL_FAULTS_SEEN] else MOST_EXTRA
        )
        if self._traffic.open and (shared[CounterIndex.END_STREAM] or enough):
            self._traffic.close()
            shared[CounterIndex.STREAM_OVER] = 1
        shared[CounterIndex.UNACKNOWLEDGED] = len(self._owed)

    # Called by connections

    def on_connection_free(self, connection: SenderConnection) -> None:
        """Use a connection that can take another request."""
        self._free.append(connection)
        self._send_next(self._loop.time())

    def on_connection_lost(self, connection: SenderConnection) -> None:
        """Open another connection for one that was lost."""
        self._connections.discard(connection)
        if connection in self._free:
            self._free.remove(connection)
        self._connect()

    def on_answer(self, delivery: PlannedDelivery, answer: SenderAnswer | None) -> None:
        """Record the answer to a delivery; plan another where it was not acknowledged."""
        status = status_of(answer)
        self.log.answers[status] += 1
        self._shared.add(COUNTED.get(status, counter_of_failure(answer)))
        acknowledged = answer is not None and 200 <= answer.code < 300
        event, kind = delivery
        if kind in (DeliveryKind.FORGED, DeliveryKind.STALE):
            self.log.not_genuine[status] += 1
        if (
            answer is not None
            and answer.code < 500
            and not is_allowed(kind, status, acknowledged=acknowledged)
        ):
            self.log.record_wrong_answer(f"{event.id}, {kind.value}: was answered {status}")
        if kind in FLAGS:
            self._update_owed(delivery, status, acknowledged=acknowledged)

    def _update_owed(self, delivery: PlannedDelivery, status: str, *, acknowledged: bool) -> None:
        event, kind = delivery
        if status == "accepted" and not self.log.mark(event.number, FIRST):
            self.log.firsts_twice += 1
            self.log.record_wrong_answer(f"{event.id} was answered accepted a second time")
        if acknowledged:
            self._owed.discard((event.number, kind))
            if self.log.mark(event.number, FLAGS[kind]) and kind is DeliveryKind.GENUINE:
                self._traffic.plan_follow_ups(delivery, self._loop.time())
        elif (event.number, kind) in self._owed:
            self._traffic.plan(delivery, self._loop.time() + 0.1 + self._dice.random())

    # Sending

    def _send_next(self, now: float) -> bool:
        """Give the next delivery to a free connection; return False where there is none."""
        shared = self._shared
        new = shared[CounterIndex.EVENTS] < shared[CounterIndex.ENDED] + BACKLOG
        delivery = self._traffic.next(now, new=new)
        if delivery is None:
            return False
        connection = self._free.pop()
        event, kind = delivery
        if kind in FLAGS and not self.log.flags_of(event.number) & FLAGS[kind]:
            self._owed.add((event.number, kind))
        self.log.mark(event.number, SENT)
        self.log.deliveries += 1
        shared[CounterIndex.SENT] = self.log.deliveries
        shared[CounterIndex.EVENTS] = self._traffic.events
        hang_up = self._dice.random() < HANGS_UP and self._traffic.open
        connection.send(delivery, self._writer.request(delivery), now, hang_up=hang_up)
        return True

    def _connect(self) -> None:
        task = self._loop.create_task(self._connect_with_retry())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect_with_retry(self) -> None:
        while True:
            try:
                await self._loop.create_connection(self._new_connection, "127.0.0.1", self._port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                return

    def _new_connection(self) -> SenderConnection:
        connection = SenderConnection(self)
        self._connections.add(connection)
        return connection


def is_allowed(kind: DeliveryKind, status: str, *, acknowledged: bool) -> bool:
    """Return True if a delivery of this kind may be answered with this status."""
    return status in ALLOWED_STATUSES[kind] if acknowledged else kind not in FLAGS


def status_of(answer: SenderAnswer | None) -> str:
    """Return duly's status, or else the HTTP status."""
    if answer is None:
        return "no reply"
    return answer.status or str(answer.code)


def counter_of_failure(answer: SenderAnswer | None) -> CounterIndex:
    """Return the counter of an answer that is no success."""
    if answer is None:
        return CounterIndex.NO_REPLY
    return CounterIndex.UNAVAILABLE if answer.code >= 500 else CounterIndex.REFUSED
