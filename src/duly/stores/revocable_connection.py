"""Take a connection away from a handler that does not return, and from no other code.

The revocation may come late, when the handler has ended and the connection serves other code. So
it belongs to one use of a connection, and does nothing after that use.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable


class RevocableConnection:
    """One use of a connection, from BEGIN to its return; ``revoke`` works in between only.

    ``exclusive`` keeps the use from ending while it is revoked. Where that may take long, the owner
    of the connection looks at ``revoked`` instead, and does not use such a connection again.
    """

    def __init__(self, on_revoke: Callable[[], None], *, exclusive: bool) -> None:
        self._on_revoke = on_revoke
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
