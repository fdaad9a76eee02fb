"""The sender: delivers at least once, and badly; repeats whatever was not acknowledged."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from duly.demo.deliveries import TAKEN, DeliveryKind, DeliveryWriter, PlannedDelivery
from duly.demo.events import Catalog
from duly.demo.sender_connection import SenderAnswer, SenderConnection
from duly.demo.sender_log import ACKNOWLEDGED, FIRST, REPLAYED, SECOND, SENT, SenderLog
from duly.demo.shared_counters import CounterIndex
from duly.demo.traffic import Traffic

if TYPE_CHECKING:
    from duly.demo.settings import Settings
    from duly.demo.shared_counters import SharedCounters

# Connections at the same time, and so deliveries on their way.
WIRES = 64
# Seconds without an answer: longer than the five after which duly's edge says that it gave up.
PATIENCE = 7.0
LOOK = 0.02
# The share of deliveries whose sender hangs up before it has read the answer.
HANGS_UP = 0.05
# Events that may be accepted and not handled yet: with more, the faults would be over before most
# of the work has begun.
BACKLOG = 3000
# Seconds by which copies are late, at most.
LATER = 60.0
# The share of the storm after which no event kills any more: each of them needs five lives.
KILLING = 0.5

# How many times the deliveries that were asked for, at most, until every kind of fault was there.
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
        self._wires: set[SenderConnection] = set()
        self._free: list[SenderConnection] = []
        self._owed: set[tuple[int, DeliveryKind]] = set()
        self.books = SenderLog()
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> SenderLog:
        """Until everything is acknowledged."""
        begun = self._loop.time()
        for _ in range(WIRES):
            self._connect()
        while not self._is_done():
            await asyncio.sleep(LOOK)
            now = self._loop.time()
            self._check_limits(now - begun)
            for wire in [one for one in self._wires if one.delivery and now - one.since > PATIENCE]:
                wire.drop()
            while self._free and self._send_next(now):
                pass
        self.books.calm_from = self._catalog.calm_from
        return self.books

    def _is_done(self) -> bool:
        busy = any(wire.delivery for wire in self._wires)
        return not (self._traffic.open or self._owed or self._traffic.planned_count or busy)

    def _check_limits(self, passed: float) -> None:
        shared, most = self._shared, self._settings.deliveries
        share = self.books.deliveries / most if most else passed / (self._settings.seconds or 1.0)
        if share > KILLING:
            self._traffic.stop_killers()
        # A machine may be so fast that a small storm would be over before every fault was there.
        enough = most is not None and share >= (1.0 if shared[CounterIndex.CONTENT] else MOST_EXTRA)
        if self._traffic.open and (shared[CounterIndex.END_STREAM] or enough):
            self._traffic.close()
            shared[CounterIndex.STREAM_OVER] = 1
        shared[CounterIndex.UNACKNOWLEDGED] = len(self._owed)

    # What connections tell

    def on_connection_free(self, wire: SenderConnection) -> None:
        """A connection can take another request."""
        self._free.append(wire)
        self._send_next(self._loop.time())

    def on_connection_lost(self, wire: SenderConnection) -> None:
        """A connection is over: open another."""
        self._wires.discard(wire)
        if wire in self._free:
            self._free.remove(wire)
        self._connect()

    def on_answer(self, delivery: PlannedDelivery, answer: SenderAnswer | None) -> None:
        """Take note of what became of a delivery, and plan another where it was not taken."""
        told = word_of(answer)
        self.books.answers[told] += 1
        self._shared.add(COUNTED.get(told, place_of(answer)))
        taken = answer is not None and 200 <= answer.code < 300
        event, sort = delivery
        if sort in (DeliveryKind.FORGED, DeliveryKind.STALE):
            self.books.not_genuine[told] += 1
        if (
            answer is not None
            and answer.code < 500
            and not is_allowed_answer(sort, told, taken=taken)
        ):
            self.books.record_wrong_answer(f"{event.id}, {sort.value}: was told {told}")
        if sort in FLAGS:
            self._update_owed(delivery, told, taken=taken)

    def _update_owed(self, delivery: PlannedDelivery, told: str, *, taken: bool) -> None:
        event, sort = delivery
        if told == "accepted" and not self.books.mark(event.number, FIRST):
            self.books.firsts_twice += 1
            self.books.record_wrong_answer(f"{event.id} was told accepted a second time")
        if taken:
            self._owed.discard((event.number, sort))
            if self.books.mark(event.number, FLAGS[sort]) and sort is DeliveryKind.GENUINE:
                self._traffic.seconds_of(delivery, self._loop.time())
        elif (event.number, sort) in self._owed:
            self._traffic.plan(delivery, self._loop.time() + 0.1 + self._dice.random())

    # Sending

    def _send_next(self, now: float) -> bool:
        """Give the next delivery to a connection; whether there was one."""
        shared = self._shared
        new = shared[CounterIndex.EVENTS] < shared[CounterIndex.ENDED] + BACKLOG
        delivery = self._traffic.next(now, new=new)
        if delivery is None:
            return False
        wire = self._free.pop()
        event, sort = delivery
        if sort in FLAGS and not self.books.flags_of(event.number) & FLAGS[sort]:
            self._owed.add((event.number, sort))
        self.books.mark(event.number, SENT)
        self.books.deliveries += 1
        shared[CounterIndex.SENT] = self.books.deliveries
        shared[CounterIndex.EVENTS] = self._traffic.events
        hang_up = self._dice.random() < HANGS_UP and self._traffic.open
        wire.send(delivery, self._writer.request(delivery), now, hang_up=hang_up)
        return True

    def _connect(self) -> None:
        task = self._loop.create_task(self._connect_with_retry())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect_with_retry(self) -> None:
        while True:
            try:
                await self._loop.create_connection(self._wire, "127.0.0.1", self._port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                return

    def _wire(self) -> SenderConnection:
        wire = SenderConnection(self)
        self._wires.add(wire)
        return wire


def is_allowed_answer(sort: DeliveryKind, told: str, *, taken: bool) -> bool:
    """Whether a delivery of that sort may be told that."""
    return told in TAKEN[sort] if taken else sort not in FLAGS


def word_of(answer: SenderAnswer | None) -> str:
    """What was answered, in one word."""
    if answer is None:
        return "no reply"
    return answer.said or str(answer.code)


def place_of(answer: SenderAnswer | None) -> CounterIndex:
    """Where an answer that is no success is counted."""
    if answer is None:
        return CounterIndex.NO_REPLY
    return CounterIndex.UNAVAILABLE if answer.code >= 500 else CounterIndex.REFUSED
