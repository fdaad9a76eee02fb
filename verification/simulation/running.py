"""Which process of the simulation is running just now: code of duly's must not have to say."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from verification.simulation.processes import Process

RUNNING: list[Process] = []


def here() -> Process:
    """The process whose code is running."""
    return RUNNING[-1]
