"""Telling the worker and the relay of this process that there is work."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from duly.core.session import WorkKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ALL_WORK: tuple[WorkKind, ...] = get_args(WorkKind)


class Wakeup:
    """Rung after a commit that wrote jobs or messages; may be rung from any thread."""

    def __init__(self) -> None:
        self._listeners: list[tuple[WorkKind, Callable[[], None]]] = []

    def add_listener(self, work: WorkKind, listener: Callable[[], None]) -> None:
        """Have a listener called whenever there is work of its kind."""
        self._listeners = [*self._listeners, (work, listener)]

    def remove_listener(self, listener: Callable[[], None]) -> None:
        """Never call it again."""
        self._listeners = [one for one in self._listeners if one[1] != listener]

    def notify(self, new_work: Iterable[WorkKind] = ALL_WORK) -> None:
        """Wake those who do this work; nothing where there is none."""
        for work, listener in self._listeners:
            if work in new_work:
                listener()
