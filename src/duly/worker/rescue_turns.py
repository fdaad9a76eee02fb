"""Whose turn it is of the jobs that came back from lost workers.

Those that came back once run beside each other. One that did twice runs beside no other that came
back, so the two kinds take turns: whichever keeps coming would keep the other waiting for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.jobs.lease import RescueQuota

if TYPE_CHECKING:
    from collections.abc import Sequence


class RescueTurns:
    """What one queue knows of those that came back and are due."""

    def __init__(self) -> None:
        # One that came back twice is due, as far as is known; and it goes first where both are.
        self._twice_due = False
        self._twice_first = False
        # The last look found some of either kind.
        self._found = False

    @property
    def more(self) -> bool:
        """Whether more of them are believed to be due."""
        return self._found or self._twice_due

    def record_due(self, rescued: int) -> None:
        """Hear how often one came back that is due, at most."""
        self._twice_due = self._twice_due or rescued > 1

    def choose_turns(self, at_once: int, running_rescues: Sequence[int]) -> RescueQuota:
        """What to ask for, where so many could begin beside some that came back so often."""
        several = 0 if self.once_rescued_must_wait(running_rescues) else max(at_once, 0)
        return RescueQuota(
            several, lone=at_once > 0 and not running_rescues, lone_first=self._twice_first
        )

    def once_rescued_must_wait(self, running_rescues: Sequence[int]) -> bool:
        """Whether none that came back once may begin: one that did twice runs, or is next."""
        is_next = self._twice_due and self._twice_first
        return any(count > 1 for count in running_rescues) or (is_next and bool(running_rescues))

    def record_found(self, turns: RescueQuota, found: Sequence[int]) -> None:
        """Hear what was found of what was asked for: how often each came back."""
        if not turns:
            return
        self._found = bool(found)
        if 2 in found:
            self._twice_due, self._twice_first = True, False
        elif turns.lone and (turns.lone_first or not found):
            self._twice_due = False
        if 1 in found:
            self._twice_first = True
