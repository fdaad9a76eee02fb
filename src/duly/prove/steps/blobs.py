"""Watches what is written through ``blobopen`` of `sqlite3`, which no statement tells of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


class WatchedBlob:
    """Stands for a blob. Outside of a transaction its writes are committed when it is closed."""

    def __init__(self, blob: Any, connection: Any, table: str, column: str) -> None:
        self._blob = blob
        self._connection = connection
        # The statement that would have done the same; it is recorded, and never run.
        self._text = f"UPDATE {table} SET {column} = (a part of it)"  # noqa: S608
        self._written = False

    def write(self, data: Any) -> None:
        """Write at the place where it is."""
        with self._step():
            self._blob.write(data)
        self._written = True

    def close(self) -> None:
        """Let go of it."""
        if not self._written:
            self._blob.close()
            return
        self._written = False
        with self._step():
            self._blob.close()

    def _step(self) -> AbstractContextManager[None]:
        return self._connection.steps.step(self._text, (), self._connection)  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._blob, name)

    def __len__(self) -> int:
        return len(self._blob)

    def __getitem__(self, place: Any) -> Any:
        return self._blob[place]

    def __setitem__(self, place: Any, data: Any) -> None:
        with self._step():
            self._blob[place] = data
        self._written = True

    def __enter__(self) -> WatchedBlob:
        self._blob.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
