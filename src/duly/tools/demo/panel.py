"""The live panel on a terminal, drawn with rich."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import ROUNDED
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from duly.tools.demo.crew import State
from duly.tools.demo.display import Phase
from duly.tools.demo.line import Outcome
from duly.tools.demo.report import MARKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.tools.demo.display import Scene

# Seconds between two pictures: smooth enough for the eye, and cheap.
EVERY = 0.125
# Wider than this the numbers stand too far from their names.
WIDEST = 100

# Columns left free at the right: the terminal's own "^C" must not break the line.
MARGIN = 4

GOOD, BAD = MARKS

HINTS = {Phase.RACE: "Ctrl-C ends it early", Phase.DRAIN: "Ctrl-C twice quits at once"}

SIGNS = {
    State.STARTING: ("○", "dim"),
    State.SERVING: ("●", "green"),
    State.LEASED: ("◆", "cyan"),
    State.STOPPED: ("■", "yellow"),
}


class PanelDisplay:
    """One panel that is redrawn in place; it disappears when it is closed."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        # Without its own thread: this process starts others all the time.
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._next = 0.0
        self._live.start()

    def show(self, scene: Scene) -> None:
        """Draw the scene when it is time."""
        if scene.elapsed >= self._next:
            self._next = scene.elapsed + EVERY
            width = min(self._console.width - MARGIN, WIDEST)
            self._live.update(panel(scene, width), refresh=True)

    def close(self) -> None:
        """Take the panel off the screen."""
        self._live.stop()

    def page(self, lines: Sequence[str]) -> None:
        """Print the lines, with colour for what balances and what does not."""
        for line in lines:
            text = Text(line)
            text.highlight_words([GOOD], "bold green")
            text.highlight_words([BAD], "bold red")
            self._console.print(text, soft_wrap=True)


def panel(scene: Scene, width: int) -> Panel:
    """The whole picture, always of the same height."""
    body = Group(progress(scene), Text(), crew(scene.workers), Text(), counts(scene))
    title = "[bold]duly[/] · the same events, many processes, one SQLite file"
    foot = f"[dim]{HINTS[scene.phase]}[/]"
    return Panel(body, box=ROUNDED, title=title, subtitle=foot, width=width, padding=(1, 2))


def progress(scene: Scene) -> Table:
    """How much of the time is over."""
    done = min(scene.elapsed, scene.length)
    line = Table.grid(padding=(0, 2), expand=True)
    line.add_column(ratio=1)
    line.add_column(justify="right", no_wrap=True)
    bar = ProgressBar(total=scene.length, completed=done, complete_style="cyan")
    line.add_row(bar, f"{done:4.1f} s of {scene.length:.0f} s")
    line.add_row(Text(scene.phase.value, style="bold", no_wrap=True), "")
    return line


def crew(workers: Sequence[State]) -> Text:
    """One sign for each process, and what the signs mean."""
    signs = Text.assemble(*((f"{SIGNS[state][0]} ", SIGNS[state][1]) for state in workers))
    signs.append("\n")
    for state, (sign, style) in SIGNS.items():
        signs.append(f"{sign} ", style).append(f"{state.value}   ", "dim")
    return signs


def counts(scene: Scene) -> Table:
    """What happened so far: deliveries on the left, faults on the right."""
    answers = scene.told
    left = pairs(
        ("deliveries", f"{scene.deliveries:,}"),
        ("per second", f"{scene.rate:,.0f}"),
        ("first: took effect", f"{answers(Outcome.FIRST):,}"),
        ("duplicate: no effect", f"{answers(Outcome.DUPLICATE):,}"),
    )
    faults = pairs(
        ("killed with kill -9", f"{scene.faults.kills:,}"),
        ("stopped past their lease", f"{scene.faults.stops:,}"),
        ("late workers refused", f"{answers(Outcome.REFUSED):,}"),
        ("told to come back later", f"{answers(Outcome.LATER):,}"),
    )
    both = Table.grid(padding=(0, 4), expand=True)
    both.add_column(ratio=1)
    both.add_column(ratio=1)
    both.add_row(left, faults)
    return both


def pairs(*rows: tuple[str, str]) -> Table:
    """Names and numbers, in two columns."""
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(ratio=1, no_wrap=True)
    table.add_column(justify="right", style="bold", no_wrap=True)
    for name, number in rows:
        table.add_row(name, number)
    return table
