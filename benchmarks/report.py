"""What a person sees: progress while it runs, a table at its end, and JSON for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.duels import Duel, Row

Tell = Callable[["Row"], None]
# Above this load average before the run, figures say little.
BUSY = 0.5


def say(text: str) -> None:
    """A line about the run itself, kept apart from what it found."""
    print(f"benchmarks: {text}", file=sys.stderr, flush=True)


def positive(text: str) -> int:
    """Read a number of something, for an option."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def warn_if_busy() -> None:
    """Say so before a run whose figures will mean little."""
    load = os.getloadavg()[0]
    if load > BUSY:
        say(f"something else keeps this machine busy (load {load:.1f}): no good run")


@contextmanager
def progress(duels: Sequence[Duel]) -> Iterator[Tell]:
    """A bar on a terminal where rich is installed, else a plain line for each row."""
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        yield plainly(len(duels))
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield plainly(len(duels))
        return
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("measuring", total=len(duels))
        yield lambda row: bar.update(task, advance=1, description=row.name)


def plainly(total: int) -> Tell:
    """Progress for a pipe."""
    done = 0

    def tell(row: Row) -> None:
        nonlocal done
        done += 1
        say(f"{done}/{total} {row.name}: {row.ratio:.2f}")

    return tell


def show(suite: str, rows: Sequence[Row]) -> None:
    """The table, what fell short of its aim, and the JSON object as the last line."""
    print(table(rows))
    short = [row.name for row in rows if row.ratio < row.aim]
    print(f"\n{len(rows) - len(short)} of {len(rows)} rows reach their aim" + below(short))
    print(json.dumps({"suite": suite, "rows": [as_json(row) for row in rows]}), flush=True)


def below(short: Sequence[str]) -> str:
    return f"; below it: {', '.join(short)}" if short else ""


def table(rows: Sequence[Row]) -> str:
    """Plain columns, which a terminal, a log and a mail all show alike."""
    width = max(len(row.name) for row in rows)
    head = f"{'':{width}}  {'ours/s':>9}  {'peer/s':>9}  {'ratio':>6}  {'aim':>4}  of one round"
    lines = [
        f"{row.name:{width}}  {row.ours:9,.0f}  {row.peer:9,.0f}  {row.ratio:6.2f}  {row.aim:4.1f}"
        f"  {row.lowest:.2f} to {row.highest:.2f}"
        for row in rows
    ]
    return "\n".join([head, *lines])


def as_json(row: Row) -> dict[str, str | float]:
    return {
        "name": row.name,
        "ours": round(row.ours, 1),
        "peer": round(row.peer, 1),
        "ratio": round(row.ratio, 3),
    }
