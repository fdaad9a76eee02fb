"""What is seen while it runs: a live panel on a terminal, a line every few seconds in a pipe."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TextIO

from duly.demo.shared_counters import CounterIndex, up_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.demo.databases import StormProgress
    from duly.demo.processes import Faults, Slot
    from duly.demo.settings import Settings
    from duly.demo.shared_counters import SharedCounters

# Seconds between two lines in a pipe: the storm's share, and the least.
PLAIN_EVERY, PLAIN_SHARE = 2.0, 50
PLAIN_HEAD = "  time  deliveries  a second   accepted  duplicate    effects  waiting   faults"


class Phase(Enum):
    """What is going on, in words."""

    STORM = "the storm: processes are killed, stopped and restarted"
    DRAIN = "quiet: what is still owed is delivered and done"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything there is to show at one moment."""

    phase: Phase
    elapsed: float
    settings: Settings
    slots: Sequence[Slot]
    numbers: SharedCounters
    rate: float
    faults: Faults
    seen: StormProgress | None

    @property
    def share(self) -> float:
        """How much of the storm is over."""
        most, length = self.settings.deliveries, self.settings.seconds
        done = self.numbers[CounterIndex.SENT] / most if most else self.elapsed / (length or 1.0)
        return min(done, 1.0)

    @property
    def waiting(self) -> int:
        """Events that were sent and are neither done nor dead, as far as is known."""
        return max(self.numbers[CounterIndex.EVENTS] - self.numbers[CounterIndex.ENDED], 0)

    def is_up(self, slot: Slot) -> bool:
        """Whether a process has begun to work."""
        return self.numbers[up_index(slot.number)] == slot.pid


class Display(Protocol):
    """Shows scenes, one after the other."""

    def show(self, scene: Snapshot) -> None:
        """Show this scene, if it is time for one."""

    def close(self) -> None:
        """The last scene was shown."""

    def page(self, lines: Sequence[str]) -> None:
        """Print what stays, once the last scene was shown."""


class PlainDisplay:
    """Lines for a pipe, a log, or a terminal without rich."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._next = PLAIN_EVERY
        self._phase: Phase | None = None

    def show(self, scene: Snapshot) -> None:
        """Print a line when it is time, and say so when a phase begins."""
        if scene.phase != self._phase:
            self.page([PLAIN_HEAD] if self._phase is None else [plain_line(scene)])
            self._phase = scene.phase
            self.page([f"{scene.elapsed:6.0f}  {scene.phase.value}"])
        elif scene.elapsed >= self._next:
            self.page([plain_line(scene)])
        else:
            return
        self._next = scene.elapsed + max(PLAIN_EVERY, scene.elapsed / PLAIN_SHARE)

    def close(self) -> None:
        """Nothing to take away: lines stay."""

    def page(self, lines: Sequence[str]) -> None:
        """Print the lines as they are."""
        print(*lines, sep="\n", file=self._output, flush=True)


class Silent:
    """Nothing at all: whoever asked wants a document."""

    def show(self, scene: Snapshot) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Nothing was shown."""

    def page(self, lines: Sequence[str]) -> None:
        """Print nothing."""


def plain_line(scene: Snapshot) -> str:
    """A scene in one line."""
    numbers, seen, faults = scene.numbers, scene.seen, scene.faults
    handled = seen.handled if seen else 0
    done = faults.kills + faults.fallen + faults.stops + faults.restarts
    return (
        f"{scene.elapsed:6.0f} {numbers[CounterIndex.SENT]:>11,} {scene.rate:>9,.0f} "
        f"{numbers[CounterIndex.ACCEPTED]:>10,} {numbers[CounterIndex.DUPLICATE]:>10,} "
        f"{handled:>10,} "
        f"{scene.waiting:>8,} {done:>8,}"
    )


def display_for(output: TextIO) -> Display:
    """The best display that the output and the installed packages allow."""
    if not output.isatty():
        return PlainDisplay(output)
    try:
        from duly.demo.panel import PanelDisplay
    except ImportError:  # rich comes with an extra
        return PlainDisplay(output)
    return PanelDisplay()
