"""The measurement: every contender in turn, round by round, each time on a fresh database.

Whatever disturbs the machine then disturbs them all alike. A figure is the median of its rounds. A
message that did not arrive, or arrived twice, ends the contender's part: nothing fails here, so
nobody has a reason to send one again.
"""

from __future__ import annotations

import random
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from statistics import median, quantiles
from typing import TYPE_CHECKING

from benchmarks.relaying.processes import Playing
from benchmarks.relaying.turns import player_of
from benchmarks.working.contest import Row
from benchmarks.working.processes import TurnFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.relaying.contenders import Contender, Store
    from benchmarks.relaying.grounds import Ground
    from benchmarks.relaying.processes import Receiver
    from benchmarks.working.figures import Marks

# Between two questions whether anything is left to write down.
GLANCE = 0.004
# So long a relay is left alone before the next message, at least and at most: it is idle again.
PAUSES = (0.03, 0.08)
WARM_UPS = 10


@dataclass(frozen=True, slots=True)
class Pace:
    """How many rounds, and how much in each."""

    rounds: int
    messages: int
    staged: int
    samples: int


class Contest:
    """All contenders, before one receiver."""

    def __init__(
        self,
        grounds: Mapping[Store, Ground],
        receiver: Receiver,
        pace: Pace,
        tell: Callable[[str], None],
    ) -> None:
        self._grounds = grounds
        self._receiver = receiver
        self._pace = pace
        self._tell = tell
        self._stack = ExitStack()
        # Databases to copy: with tables only, and with the messages in them.
        self._empty: dict[str, str] = {}
        self._filled: dict[str, str] = {}

    def run(self, contenders: Sequence[Contender], measures: Sequence[str]) -> list[Row]:
        """Every row, those of one measure next to each other."""
        rows: list[Row] = []
        playing = [Playing(one, self._pace.messages, self._receiver.port) for one in contenders]
        with self._stack:
            for one in playing:
                self._prepare(one)
            for measure in measures:
                pairs = [
                    (one, Row(f"{one.contender.name}/{measure}"))
                    for one in playing
                    if measure in one.contender.measures
                ]
                for place in range(self._pace.rounds):
                    for one, row in pairs if place % 2 == 0 else reversed(pairs):
                        self._measure(one, row, measure)
                rows += [row for _, row in pairs]
        return rows

    def _prepare(self, one: Playing) -> None:
        """Make the contender's tables and stage its messages once, for every round to copy."""
        ground, name = self._grounds[one.contender.store], one.contender.name
        player = player_of(one.contender.player)
        self._empty[name] = self._stack.enter_context(ground.new())
        player.prepare(self._empty[name])
        ground.settle(self._empty[name])
        self._filled[name] = self._stack.enter_context(ground.new(self._empty[name]))
        with player.staging(self._filled[name], one.port) as stager:
            stager.fill(range(1, one.messages + 1))
        ground.settle(self._filled[name])

    def _measure(self, one: Playing, row: Row, measure: str) -> None:
        if row.failure:
            return
        measured = {"relay": self._relay, "stage": self._stage, "end-to-end": self._latency}
        try:
            found = measured[measure](one)
        except TurnFailed as failure:
            row.failure = str(failure)
            self._tell(row.failure)
            return
        row.add(found)
        self._tell(f"{row.name}: {', '.join(f'{what} {n:,.4g}' for what, n in found.items())}")

    def _relay(self, one: Playing) -> dict[str, float]:
        """From the first message that arrives until the last is written down as sent."""
        ground, left = self._grounds[one.contender.store], player_of(one.contender.player).LEFT
        with ground.new(self._filled[one.contender.name]) as url:
            before, fresh = ground.marks(url), one.at(url)
            with ground.asking(url, left) as any_left:
                seconds = self._drained(fresh, any_left)
            judge(one.contender.name, one.messages, self._receiver.seen())
            counted = per_message(before, ground.marks(url), one.messages)
        return {"rate": one.messages / seconds, **counted}

    def _drained(self, fresh: Playing, any_left: Callable[[], bool]) -> float:
        self._receiver.expect(fresh.messages)
        with fresh.running("relay") as relay:
            arrived = self._receiver.arrived(relay, fresh.patience)
            deadline = time.monotonic() + fresh.patience
            while any_left():
                relay.check()
                if time.monotonic() > deadline:
                    raise TurnFailed(relay.blame())
                time.sleep(GLANCE)
            return time.monotonic() - arrived["first"]

    def _stage(self, one: Playing) -> dict[str, float]:
        ground = self._grounds[one.contender.store]
        with ground.new(self._empty[one.contender.name]) as url:
            found: dict[str, float] = replace(one.at(url), messages=self._pace.staged).take("stage")
            return found

    def _latency(self, one: Playing) -> dict[str, float]:
        """From the begin of the transaction that stages until the receiver has the message."""
        ground, pauses, taken = self._grounds[one.contender.store], random.Random(1), []
        with (
            ground.new(self._empty[one.contender.name]) as url,
            one.at(url).running("tell") as running,
        ):
            lines = running.lines()
            for number in range(WARM_UPS + self._pace.samples):
                self._receiver.expect(1)
                lines.tell(str(number))
                called = float(lines.next())
                arrived = self._receiver.arrived(running, one.patience)
                taken.append(arrived["first"] - called)
                time.sleep(pauses.uniform(*PAUSES))
        samples = taken[WARM_UPS:]
        return {"p50": median(samples), "p99": quantiles(samples, n=100, method="inclusive")[-1]}


def judge(name: str, messages: int, seen: Mapping[str, float]) -> None:
    """Refuse a relay that lost a message, or sent one twice."""
    if seen != {"requests": messages, "messages": messages}:
        raise TurnFailed(f"{name} had {messages} messages to send, and there came {seen}")


def per_message(before: Marks | None, after: Marks | None, messages: int) -> dict[str, float]:
    """What the store says of a run, where it does."""
    if before is None or after is None:
        return {}
    return {
        "wal_bytes": (after.written - before.written) / messages,
        "commits": (after.commits - before.commits) / messages,
    }
