"""Taking a connection from code that does not let go of it, and from nobody else.

Whoever gives it up may be late: the code has ended meanwhile, and the connection serves another.
So a revocation belongs to one use of a connection and is over with it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable


class RevocableConnection:
    """One use of a connection, from BEGIN to its return; ``revoke`` works in between only.

    ``exclusive`` keeps the use from ending while it is revoked. Where that may take long, whoever
    lends looks at ``revoked`` instead, and does not lend such a connection again.
    """

    def __init__(self, take_away: Callable[[], None], *, exclusive: bool) -> None:
        self._on_revoke = take_away
        self._exclusive = exclusive
        self._lock = threading.Lock()
        self._is_over = False
        self.revoked = False

    def revoke(self) -> None:
        """From another thread: take the connection away, if it is still in this use."""
        with self._lock:
            if self._is_over:
                return
            self.revoked = True
            if self._exclusive:
                self._on_revoke()
        if not self._exclusive:
            self._on_revoke()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_over = True
