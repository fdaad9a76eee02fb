"""Workers that are killed at any moment of their schedules' lives: each slot takes effect once."""

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.receiver.faults.crons import FileClock, prepare
from tests.support.processes import Led, until
from tests.support.processes.effects import Side
from tests.support.sizes import sized

pytestmark = pytest.mark.slow

WORKERS, SLOTS, KILLS = sized((3, 60, 4), whole=(3, 200, 10))
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
# The last slots of New Year's Day, from a moment before: workers look again in a moment.
START = datetime(2026, 1, 2, tzinfo=UTC) - SLOTS * MINUTE - timedelta(milliseconds=30)
REACHED = {
    True: "SELECT min(slot) FROM duly_schedules",
    False: "SELECT (min(extract(epoch FROM slot)) * 1000000)::bigint FROM duly_schedules",
}


class Hall:
    """Workers on one database and one clock."""

    def __init__(self, url: str, path: Path) -> None:
        self.clock = FileClock(path)
        self._arguments = (url, str(path))
        self.now = START
        self.clock.set(START)
        prepare(url, self.clock)
        self.side = Side(url)
        self.crew: list[Led] = []

    def start(self) -> None:
        """One more worker."""
        self.crew.append(Led("tests.receiver.faults.crons", *self._arguments))

    def complete(self) -> bool | None:
        """Whether all of them are at work."""
        return self._number("SELECT count(*) FROM duly_workers") == WORKERS or None

    def crank(self, by: timedelta) -> None:
        """Move the clock of all of them."""
        self.now += by
        self.clock.set(self.now)

    def kill(self) -> None:
        """Kill one in the middle of whatever it does."""
        self.crew.pop(random.randrange(len(self.crew))).kill()

    def fired(self) -> bool | None:
        """Whether all schedules have come to the last slot there is."""
        slot = self._number(REACHED[self.side.is_sqlite])
        last = self.now.replace(second=0, microsecond=0)
        return slot == int(last.timestamp()) * 1_000_000 or None

    def done(self) -> bool | None:
        """Whether no job is left; whatever waits for its time has it come."""
        self.crank(timedelta(hours=1))
        return self._number("SELECT count(*) FROM duly_jobs") == 0 or None

    def _number(self, query: str) -> int:
        [(found,)] = self.side.connection.execute(query).fetchall()
        return int(found)

    def close(self) -> None:
        """End whoever is left."""
        while self.crew:
            self.kill()
        self.side.close()


@pytest.fixture
def hall(url: str, tmp_path: Path) -> Iterator[Hall]:
    """Workers that are gone when the test ends."""
    opened = Hall(url, tmp_path / "clock")
    with closing(opened):
        yield opened


def test_each_slot_takes_effect_once_however_often_workers_are_killed(hall: Hall) -> None:
    for _ in range(WORKERS):
        hall.start()
    until(hall.complete)
    for slot in range(SLOTS):
        hall.crank(MINUTE)
        if slot % (SLOTS // KILLS) == SLOTS // KILLS // 2:
            time.sleep(random.random() / 20)  # where it is killed is for chance to say
            hall.kill()
            hall.start()
        until(hall.fired)
    while hall.crew:
        hall.kill()
    hall.crank(3 * DAY)  # the leases of the dead are over
    hall.start()
    until(hall.done)
    slots = [START.replace(microsecond=0, second=0) + MINUTE * (n + 1) for n in range(SLOTS)]
    wanted = [f"{name} {slot.isoformat()}" for name in ("all", "latest") for slot in slots]
    assert Counter(hall.side.effects()) == Counter(wanted)
