"""The pages about jobs and messages show the states that `core/states.py` knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duly.core.states import JOB_MOVES, MESSAGE_MOVES

DOCS = Path(__file__).parents[2] / "docs"
BEGINNING = "<!-- drawn from core/states.py; tests/docs/test_state_page.py keeps it so -->\n"
END = "<!-- drawn until here -->\n"
# Where Mermaid begins a job, and where one is left of which nothing remains.
NOWHERE = "[*]"


def drawn(moves: tuple[Any, ...]) -> str:
    """The section as the table of moves says it: a diagram, then each move with its guard."""
    arrows: dict[tuple[str, str], list[str]] = {}
    rows = ["| from | to | statement | only where |", "|---|---|---|---|"]
    for move in moves:
        before, after = str(move.before or NOWHERE), str(move.after or NOWHERE)
        arrows.setdefault((before, after), []).append(move.statement)
        cells = (move.before or "", move.after or "", f"`{move.statement}`", move.guard)
        rows.append(f"| {' | '.join(cells)} |")
    diagram = [
        f"    {before} --> {after}: {', '.join(statements)}"
        for (before, after), statements in arrows.items()
    ]
    lines = ["```mermaid", "stateDiagram-v2", *diagram, "```", "", *rows]
    return "\n" + "\n".join(lines) + "\n\n"


@pytest.mark.parametrize(
    ("page", "moves"),
    [("jobs.md", JOB_MOVES), ("outbox.md", MESSAGE_MOVES)],
    ids=["jobs", "outbox"],
)
def test_the_states_on_the_page_are_those_of_the_table(page: str, moves: tuple[Any, ...]) -> None:
    _, beginning, rest = (DOCS / page).read_text(encoding="utf-8").partition(BEGINNING)
    shown, end, _ = rest.partition(END)
    assert beginning, f"the page has no line {BEGINNING!r}"
    assert end, f"the page has no line {END!r}"
    assert shown == drawn(moves), f"write this into docs/{page} instead:\n{drawn(moves)}"
