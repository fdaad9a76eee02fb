"""Python's audit events: connections that are not watched, and programs that are started.

A name that was imported before the proof (``from sqlite3 import connect``) is the old function, and
its connections are not watched. They would be written to without a kill, a copy or a comparison.
"""

from __future__ import annotations

import sqlite3
import sys
from typing import TYPE_CHECKING, Any

from duly.core.errors import UsageError
from duly.prove.recording.programs import refuse_program

if TYPE_CHECKING:
    from duly.prove.recording.net import NetworkGuard

STARTING = frozenset({"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"})
SENDING = frozenset({"socket.sendto", "socket.sendmsg"})


class AuditHook:
    """Refuses what goes past the watch and the recorder, once the net is closed.

    A hook cannot be taken away: it is added in a process of the proof, and goes with it.
    """

    def __init__(self, net: NetworkGuard) -> None:
        self._net = net

    def add(self) -> None:
        """Begin to listen."""
        sys.addaudithook(self._on_event)

    def _on_event(self, event: str, values: tuple[Any, ...]) -> None:
        if not self._net.is_closed:
            return
        if event == "sqlite3.connect/handle":
            with self._net.refusals.record_refusals():
                refuse_unwatched(values[0])
        elif event in STARTING:
            refuse_program(self._net, values[0])
        elif event in SENDING and len(values) > 1 and values[-1] is not None:
            self._net.check(values[0].family, values[-1])


def refuse_unwatched(connection: Any) -> None:
    """Refuse a connection whose statements are not seen."""
    if isinstance(connection, sqlite3.Connection) and not hasattr(type(connection), "steps"):
        raise UsageError(
            "the proof cannot see this connection: its module has taken connect out of sqlite3 "
            "before the proof began. Write `import sqlite3` and `sqlite3.connect(…)`"
        )
