"""What is seen while it runs: a live panel on a terminal, a line every two seconds in a pipe."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TextIO

from duly.tools.demo.line import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.tools.demo.crew import Faults, State

# Seconds between two lines in a pipe.
PLAIN_EVERY = 2.0
PLAIN_HEAD = "  time  deliveries  a second    first duplicate   later refused killed stopped"


class Phase(Enum):
    """What is going on, in words."""

    RACE = "racing, while some are killed or stopped"
    DRAIN = "faults are over: delivering what is still owed"


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything there is to show at one moment."""

    phase: Phase
    elapsed: float
    length: float
    workers: Sequence[State]
    deliveries: int
    rate: float
    answers: Mapping[Outcome, int]
    faults: Faults

    def told(self, outcome: Outcome) -> int:
        """How many answers there were of this kind."""
        return self.answers.get(outcome, 0)


class Display(Protocol):
    """Shows scenes, one after the other."""

    def show(self, scene: Scene) -> None:
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

    def show(self, scene: Scene) -> None:
        """Print a line when it is time, and say so when a phase begins."""
        if scene.phase != self._phase:
            self._print(*([PLAIN_HEAD] if self._phase is None else [plain_line(scene)]))
            self._phase = scene.phase
            self._print(f"{scene.elapsed:4.0f} s  {scene.phase.value}")
        elif scene.elapsed >= self._next:
            self._print(plain_line(scene))
        else:
            return
        self._next = scene.elapsed + PLAIN_EVERY

    def close(self) -> None:
        """Nothing to take away: lines stay."""

    def page(self, lines: Sequence[str]) -> None:
        """Print the lines as they are."""
        self._print(*lines)

    def _print(self, *lines: str) -> None:
        print(*lines, sep="\n", file=self._output, flush=True)


def plain_line(scene: Scene) -> str:
    """A scene in one line."""
    told, faults = scene.told, scene.faults
    return (
        f"{scene.elapsed:4.0f} s {scene.deliveries:>11,} {scene.rate:>9,.0f} "
        f"{told(Outcome.FIRST):>8,} {told(Outcome.DUPLICATE):>9,} {told(Outcome.LATER):>7,} "
        f"{told(Outcome.REFUSED):>7,} {faults.kills:>6,} {faults.stops:>7,}"
    )


def display_for(output: TextIO) -> Display:
    """The best display that the output and the installed packages allow."""
    if not output.isatty():
        return PlainDisplay(output)
    try:
        from duly.tools.demo.panel import PanelDisplay
    except ImportError:  # rich comes with an extra
        return PlainDisplay(output)
    return PanelDisplay()
