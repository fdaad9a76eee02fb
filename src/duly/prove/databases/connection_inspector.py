"""Every database that a process of a proof uses is met before its first statement there.

A file is kept as it is, so that it can be put back. Another database of a server cannot be kept,
and is refused. So is what cannot be copied.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duly.core.errors import UsageError
from duly.prove.databases.file_list import keep_original, read_list
from duly.prove.databases.open_by_others import ProofProcesses, refuse_in_use
from duly.prove.databases.servers import target_of

if TYPE_CHECKING:
    from duly.prove.child_main import ChildTask
    from duly.prove.databases.servers import OwnDatabase


class ConnectionInspector:
    """Keeps each file just before the first statement that could change it.

    It runs in the process whose connections they are, and at a moment when that process has no lock
    on the file: closing a copy would give it up.

    Args:
        act: the process.
        home: duly's own database.
    """

    def __init__(self, act: ChildTask, home: OwnDatabase) -> None:
        self._act = act
        self._ours = ProofProcesses(act.prover, os.getsid(0))
        self._home = home
        self._known: set[str] = set()

    def inspect(self, connection: Any) -> None:
        """A connection is about to be used for the first time."""
        if isinstance(connection, sqlite3.Connection):
            self._keep_files(connection)
        else:
            self._refuse_another(connection)

    def _keep_files(self, connection: sqlite3.Connection) -> None:
        cursor = sqlite3.Cursor(connection)
        cursor.row_factory = None
        for _, _, file in cursor.execute("PRAGMA database_list").fetchall():
            if file and file not in self._known:
                self._keep(Path(file))
                self._known.add(file)

    def _keep(self, file: Path) -> None:
        # Several processes of a case may meet a file at one moment.
        with (self._act.folder / "meeting").open("a") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            if file in read_list(self._act.files):
                return
            refuse_in_use([file], self._ours)
            try:
                keep_original(file, self._act.files)
            except OSError as problem:
                raise UsageError(
                    f"the handler uses {file}, of which no copy can be made beside it "
                    f"({problem.strerror}), so that it cannot be restored: let it use another"
                ) from None

    def _refuse_another(self, connection: Any) -> None:
        """Refuse a server's database that is not duly's: it cannot be restored."""
        found = target_of(connection)
        if not self._home.includes(found):
            raise UsageError(
                f"the handler uses the PostgreSQL database {found.database!r} of {found.host}:"
                f"{found.port}, which is not the one of duly's tables and cannot be put back: use "
                f"one database, or allow its server with --let-through {found.host}:{found.port} "
                "and see to its state yourself"
            )
