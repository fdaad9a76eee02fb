"""The display while a storm runs: a live panel on a terminal, a line now and then in a pipe."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TextIO

from duly.demo.context import CounterIndex, up_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.demo.context import SharedCounters
    from duly.demo.databases import StormProgress
    from duly.demo.processes import Faults, Slot
    from duly.demo.settings import Settings

# Seconds between two lines in a pipe: at least, and as a share of the time so far.
PLAIN_EVERY, PLAIN_SHARE = 2.0, 50
PLAIN_HEAD = "  time  deliveries  a second   accepted  duplicate    effects  waiting   faults"


class Phase(Enum):
    """What is going on, in words."""

    STORM = "the storm: processes are killed, stopped and restarted"
    DRAIN = "quiet: what is left is delivered and done"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a display shows at one moment."""

    phase: Phase
    elapsed: float
    settings: Settings
    slots: Sequence[Slot]
    counters: SharedCounters
    rate: float
    faults: Faults
    progress: StormProgress | None

    @property
    def share(self) -> float:
        """Return how much of the storm is over, from 0 to 1."""
        most, length = self.settings.deliveries, self.settings.seconds
        done = self.counters[CounterIndex.SENT] / most if most else self.elapsed / (length or 1.0)
        return min(done, 1.0)

    @property
    def waiting(self) -> int:
        """Return how many events were sent and are neither done nor dead yet."""
        return max(self.counters[CounterIndex.EVENTS] - self.counters[CounterIndex.ENDED], 0)

    def is_up(self, slot: Slot) -> bool:
        """Return True if a process has begun to work."""
        return self.counters[up_index(slot.number)] == slot.pid


class Display(Protocol):
    """Shows snapshots, one after the other."""

    def show(self, snapshot: Snapshot) -> None:
        """Show a snapshot, if it is time for one."""

    def close(self) -> None:
        """End the display."""

    def page(self, lines: Sequence[str]) -> None:
        """Print lines that stay, after `close`."""


class PlainDisplay:
    """Lines for a pipe, a log, or a terminal without rich."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._next = PLAIN_EVERY
        self._phase: Phase | None = None

    def show(self, snapshot: Snapshot) -> None:
        """Print a line when it is time, and another when a phase begins."""
        if snapshot.phase != self._phase:
            self.page([PLAIN_HEAD] if self._phase is None else [plain_line(snapshot)])
            self._phase = snapshot.phase
            self.page([f"{snapshot.elapsed:6.0f}  {snapshot.phase.value}"])
        elif snapshot.elapsed >= self._next:
            self.page([plain_line(snapshot)])
        else:
            return
        self._next = snapshot.elapsed + max(PLAIN_EVERY, snapshot.elapsed / PLAIN_SHARE)

    def close(self) -> None:
        """Do nothing: lines stay."""

    def page(self, lines: Sequence[str]) -> None:
        """Print the lines as they are."""
        print(*lines, sep="\n", file=self._output, flush=True)


def plain_line(snapshot: Snapshot) -> str:
    """Return a snapshot in one line."""
    counters, progress, faults = snapshot.counters, snapshot.progress, snapshot.faults
    handled = progress.handled if progress else 0
    done = faults.kills + faults.fallen + faults.stops + faults.restarts
    return (
        f"{snapshot.elapsed:6.0f} {counters[CounterIndex.SENT]:>11,} {snapshot.rate:>9,.0f} "
        f"{counters[CounterIndex.ACCEPTED]:>10,} {counters[CounterIndex.DUPLICATE]:>10,} "
        f"{handled:>10,} "
        f"{snapshot.waiting:>8,} {done:>8,}"
    )


def display_for(output: TextIO) -> Display:
    """Return the best display that the output and the installed packages allow."""
    if not output.isatty():
        return PlainDisplay(output)
    try:
        from duly.demo.panel import PanelDisplay
    except ImportError:  # rich comes with an extra
        return PlainDisplay(output)
    return PanelDisplay()
