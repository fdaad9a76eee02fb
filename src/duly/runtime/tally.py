"""What a worker did, for whoever asked it to work, and for the counters."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Worked:
    """What became of the jobs that a worker had.

    Args:
        done: finished.
        stale: passed over, because a later version of their resource was applied before.
        again: failed, released or not yet due, and will run again.
        dead: out of attempts or rescues, or given up by their handler.
        lost: taken by somebody else while they ran here; what they wrote was rolled back.
        rescued: taken back from workers that were lost.
        stuck: whether handlers that do not end make it necessary to start the process anew.
    """

    done: int = 0
    stale: int = 0
    again: int = 0
    dead: int = 0
    lost: int = 0
    rescued: int = 0
    stuck: bool = False
