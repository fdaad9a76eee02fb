"""The run: faults for a while, then the deliveries that are still owed, then the end."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from duly.tools.demo.display import Phase, Scene
from duly.tools.demo.line import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.tools.demo.crew import Crew
    from duly.tools.demo.display import Display
    from duly.tools.demo.line import Line
    from duly.tools.demo.nemesis import Nemesis
    from duly.tools.demo.sender import Sender

# Seconds between two looks at the line: short against the work, long against the looking.
TICK = 0.004
# Seconds after which what is still owed counts as lost, and the audit says so.
LONGEST_DRAIN = 30.0


class Play:
    """Brings the sender, the workers and the one who kills them together."""

    def __init__(self, line: Line, sender: Sender, crew: Crew, display: Display) -> None:
        self._line = line
        self._sender = sender
        self._crew = crew
        self._display = display
        self._began = time.monotonic()
        self._samples: deque[tuple[float, int]] = deque([(self._began, 0)])

    def storm(self, nemesis: Nemesis, *, length: float, hurried: Callable[[], bool]) -> None:
        """Deliver and do harm, for so many seconds or until hurried."""
        end = self._began + length
        while (now := time.monotonic()) < end and not hurried():
            nemesis.act(now)
            self._turn(now)
            self._show(Phase.RACE, now, length)
        nemesis.rest()

    def drain(self, *, length: float) -> None:
        """No more harm and no new events: deliver until every event is done."""
        self._sender.end_stream()
        end = time.monotonic() + LONGEST_DRAIN
        while (now := time.monotonic()) < end and not self._sender.idle:
            self._turn(now)
            self._show(Phase.DRAIN, now, length)
        self._line.hang_up()
        while not self._crew.ended() and time.monotonic() < end:
            self._listen(time.monotonic())
            time.sleep(TICK)
        self._listen(time.monotonic())

    def _turn(self, now: float) -> None:
        self._crew.check()
        self._line.send(self._sender.due(now))
        time.sleep(TICK)
        self._listen(time.monotonic())

    def _listen(self, now: float) -> None:
        for answer in self._line.hear():
            self._crew.hear(answer)
            if answer.outcome is not Outcome.WORKING:
                self._sender.hear(answer, now)

    def _show(self, phase: Phase, now: float, length: float) -> None:
        self._display.show(
            Scene(
                phase=phase,
                elapsed=now - self._began,
                length=length,
                workers=[worker.state for worker in self._crew.workers],
                deliveries=self._sender.deliveries,
                rate=self._rate(now),
                answers=self._sender.answers,
                faults=self._crew.faults,
            )
        )

    def _rate(self, now: float) -> float:
        """Deliveries answered a second, over the last second or so."""
        samples, answered = self._samples, sum(self._sender.answers.values())
        samples.append((now, answered))
        while samples[0][0] < now - 1.0 and len(samples) > 2:
            samples.popleft()
        since, before = samples[0]
        return (answered - before) / max(now - since, TICK)
