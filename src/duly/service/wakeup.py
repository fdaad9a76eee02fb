"""Telling workers of this process that there is work, without asking the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Wakeup:
    """Rung after a commit that enqueued something; may be rung from any thread."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[], None]] = []

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Have a listener called at each ring."""
        self._listeners = [*self._listeners, listener]

    def remove_listener(self, listener: Callable[[], None]) -> None:
        """Never call it again."""
        self._listeners = [one for one in self._listeners if one != listener]

    def notify(self) -> None:
        """There is work."""
        for listener in self._listeners:
            listener()
