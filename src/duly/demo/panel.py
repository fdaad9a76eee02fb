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

from duly.demo.context import CounterIndex
from duly.demo.display import Phase
from duly.demo.processes import ProcessState, Role
from duly.demo.report import MARKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.demo.display import Snapshot
    from duly.demo.processes import Slot

# Seconds between two frames.
EVERY = 0.125
# In a wider panel the numbers would stand too far from their names.
WIDEST = 100
# Columns left free at the right, for the "^C" that the terminal prints.
MARGIN = 4

GOOD, BAD = MARKS
HINTS = {Phase.STORM: "Ctrl-C ends it early", Phase.DRAIN: "Ctrl-C twice quits at once"}
ROLES = {Role.INGRESS: "ingress", Role.WORKER: "workers", Role.RELAY: "relay"}
STARTING, WORKING, STOPPED, ENDING = "○", "●", "■", "◐"
MEANINGS = {
    STARTING: ("starting", "dim"),
    WORKING: ("at work", "green"),
    STOPPED: ("stopped", "yellow"),
    ENDING: ("told to end", "cyan"),
}


class PanelDisplay:
    """One panel that is redrawn in place; it disappears when it is closed."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        # Without a thread of its own: this process forks others all the time.
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._next = 0.0
        self._live.start()

    def show(self, snapshot: Snapshot) -> None:
        """Draw a snapshot when it is time."""
        if snapshot.elapsed >= self._next:
            self._next = snapshot.elapsed + EVERY
            width = min(self._console.width - MARGIN, WIDEST)
            self._live.update(panel(snapshot, width), refresh=True)

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


def panel(snapshot: Snapshot, width: int) -> Panel:
    """Return the panel, always of the same height."""
    body = Group(
        progress(snapshot), Text(), process_signs(snapshot), Text(), counts_table(snapshot)
    )
    store = "SQLite" if snapshot.settings.on_sqlite else "PostgreSQL"
    title = f"[bold]duly[/] · real processes, real kills, one {store} database"
    foot = f"[dim]{HINTS[snapshot.phase]}[/]"
    return Panel(body, box=ROUNDED, title=title, subtitle=foot, width=width, padding=(1, 2))


def progress(snapshot: Snapshot) -> Table:
    """Return the progress bar."""
    line = Table.grid(padding=(0, 2), expand=True)
    line.add_column(ratio=1)
    line.add_column(justify="right", no_wrap=True)
    line.add_row(
        ProgressBar(total=1.0, completed=snapshot.share, complete_style="cyan"),
        f"{snapshot.elapsed:,.0f} s",
    )
    line.add_row(Text(snapshot.phase.value, style="bold", no_wrap=True), "")
    return line


def process_signs(snapshot: Snapshot) -> Text:
    """Return one sign for each process, and what the signs mean."""
    text = Text()
    for role, name in ROLES.items():
        text.append(f"{name} ", "dim")
        for slot in snapshot.slots:
            if slot.role is role:
                sign = sign_of(slot, snapshot)
                text.append(f"{sign} ", MEANINGS[sign][1])
        text.append("  ")
    text.append("\n")
    for sign, (meaning, style) in MEANINGS.items():
        text.append(f"{sign} ", style).append(f"{meaning}   ", "dim")
    return text


def sign_of(slot: Slot, snapshot: Snapshot) -> str:
    """Return the sign of a process."""
    if slot.state is ProcessState.STOPPED:
        return STOPPED
    if slot.state is ProcessState.ENDING:
        return ENDING
    return WORKING if snapshot.is_up(slot) else STARTING


def counts_table(snapshot: Snapshot) -> Table:
    """Return the counts: deliveries on the left, effects and faults on the right."""
    counters, faults, progress = snapshot.counters, snapshot.faults, snapshot.progress
    left = pairs(
        ("deliveries", counters[CounterIndex.SENT]),
        ("  a second", round(snapshot.rate)),
        ("  accepted", counters[CounterIndex.ACCEPTED]),
        ("  duplicate", counters[CounterIndex.DUPLICATE]),
        ("  forged: refused", counters[CounterIndex.REFUSED]),
        (
            "  no answer: again",
            counters[CounterIndex.NO_REPLY] + counters[CounterIndex.UNAVAILABLE],
        ),
    )
    right = pairs(
        ("effects", progress.handled if progress else 0),
        ("  events that wait", snapshot.waiting),
        ("  receipts downstream", counters[CounterIndex.RECEIPTS]),
        ("killed with kill -9", faults.kills + faults.fallen),
        ("stopped past a lease", faults.stops),
        ("restarted", faults.restarts),
    )
    both = Table.grid(padding=(0, 4), expand=True)
    both.add_column(ratio=1)
    both.add_column(ratio=1)
    both.add_row(left, right)
    return both


def pairs(*rows: tuple[str, int]) -> Table:
    """Return names and numbers in two columns."""
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(ratio=1, no_wrap=True)
    table.add_column(justify="right", style="bold", no_wrap=True)
    for name, number in rows:
        table.add_row(name, f"{number:,}")
    return table
