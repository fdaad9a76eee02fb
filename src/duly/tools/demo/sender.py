"""A sender that delivers at least once: it repeats whatever got no answer, and some that did.

It only ever counts what it has seen itself, so that its books and the database's can be compared.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from duly.tools.demo.line import Answer, Delivery, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from duly.tools.demo.events import Event, Stream

# Seconds without an answer after which the worker is taken for dead and the event is sent again.
# Shorter than the time a stopped worker sleeps, so that its events are sent again too.
PATIENCE = 1.0
# Seconds after which a worker that lost its lease gets the event again.
AFTER_REFUSAL = 0.1
# On top of the time a worker was told to come back, so that the lease is over by then.
MARGIN = 0.02


@dataclass(frozen=True, slots=True)
class SenderBooks:
    """What the sender knows at the end."""

    events: Mapping[str, int]
    """The amount of every event sent, by its id."""
    deliveries: int
    answers: Mapping[Outcome, int]
    unanswered: int
    """Deliveries that never got an answer."""
    unacknowledged: int
    """Events for which no delivery was answered as first or duplicate."""
    first_untold: int
    """Events answered as duplicate only: whoever was first did not live to say so."""


class Sender:
    """Decides what to deliver next, and hears what became of it. Time comes in as seconds."""

    def __init__(self, stream: Stream, *, window: int) -> None:
        self._stream = stream
        self._window = window
        self._open_stream = True
        self._events: list[Event] = []
        self._deliveries = 0
        self._unanswered: dict[int, Event] = {}
        self._listening: dict[int, float] = {}  # deliveries not given up, oldest first
        self._again: list[tuple[float, int, Event]] = []  # a heap by time
        self._plans = count()
        self._ready: deque[Event] = deque()
        self._firsts: Counter[int] = Counter()
        self._duplicates: Counter[int] = Counter()
        self.answers: Counter[Outcome] = Counter()

    @property
    def deliveries(self) -> int:
        """How many deliveries were sent."""
        return self._deliveries

    @property
    def idle(self) -> bool:
        """Whether there is nothing left to send and nothing left to wait for."""
        return not (self._open_stream or self._listening or self._again or self._ready)

    def end_stream(self) -> None:
        """No new events from now on; those already sent are delivered until they are done."""
        self._open_stream = False

    def due(self, now: float) -> Iterator[Delivery]:
        """What to deliver now: as much as may be on its way at the same time."""
        self._give_up(now)
        while self._again and self._again[0][0] <= now:
            self._ready.append(heappop(self._again)[2])
        while len(self._listening) < self._window:
            if not self._ready and self._open_stream:
                self._draw(now)
            if not self._ready:
                return
            yield self._delivery(self._ready.popleft(), now)

    def hear(self, answer: Answer, now: float) -> None:
        """Take note of an answer, and plan another delivery where it was not a success."""
        self.answers[answer.outcome] += 1
        event = self._unanswered.pop(answer.delivery, None)
        if event is None:  # answered before, or never sent: the audit will not balance
            return
        self._listening.pop(answer.delivery, None)
        if answer.outcome is Outcome.FIRST:
            self._firsts[event.number] += 1
        elif answer.outcome is Outcome.DUPLICATE:
            self._duplicates[event.number] += 1
        elif answer.outcome is Outcome.LATER:
            self._plan(event, now + answer.retry_after + MARGIN)
        else:
            self._plan(event, now + AFTER_REFUSAL)

    def books(self) -> SenderBooks:
        """The sender's side of the audit."""
        answered = self._firsts.keys() | self._duplicates.keys()
        return SenderBooks(
            events={event.id: event.amount for event in self._events},
            deliveries=self._deliveries,
            answers=dict(self.answers),
            unanswered=len(self._unanswered),
            unacknowledged=len(self._events) - len(answered),
            first_untold=len(self._duplicates.keys() - self._firsts.keys()),
        )

    def _draw(self, now: float) -> None:
        arrival = self._stream.draw()
        self._events.append(arrival.event)
        self._ready.extend([arrival.event] * arrival.at_once)
        for delay in arrival.afterwards:
            self._plan(arrival.event, now + delay)

    def _delivery(self, event: Event, now: float) -> Delivery:
        self._deliveries += 1
        self._unanswered[self._deliveries] = event
        self._listening[self._deliveries] = now
        return Delivery(self._deliveries, event)

    def _give_up(self, now: float) -> None:
        """Send again what was not answered in time; a late answer still counts."""
        for number, sent_at in list(self._listening.items()):
            if now - sent_at < PATIENCE:
                return
            del self._listening[number]
            self._plan(self._unanswered[number], now)

    def _plan(self, event: Event, at: float) -> None:
        # Numbered, so that two plans for one moment are never compared by their events.
        heappush(self._again, (at, next(self._plans), event))
