"""A connection that is closed so that the last answer can still be read.

A kernel that closes a socket while bytes of the peer are unread, or arrive later, sends a reset. A
client that writes its whole request before it reads then loses the answer that is already on its
way. So the sending side is closed first, and what still comes is thrown away for a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

# More than the largest payload of any provider (GitHub's 25 MB).
LINGER_BYTES: Final = 32 * 1024 * 1024
LINGER_SECONDS: Final = 5.0
# The same while the server drains: its end must not wait for a client that goes on sending.
HURRIED_SECONDS: Final = 1.0


class LingeringTransport:
    """A transport whose ``close`` waits for the peer where the peer may still be sending.

    Args:
        transport: of the connection.
        loop: in which it lives.
        may_be_sending: returns True if bytes of a request may be on their way when it is closed.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        may_be_sending: Callable[[], bool],
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._may_be_sending = may_be_sending
        self._seconds = LINGER_SECONDS
        self._left = LINGER_BYTES
        self._paused = False
        self._end: asyncio.TimerHandle | None = None

    def __getattr__(self, name: str) -> Any:
        """Pass on everything else."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send, unless the last answer was sent."""
        if self._end is None:
            self._transport.write(data)

    def pause_reading(self) -> None:
        """Leave what comes in the kernel's buffer."""
        if self._end is None:
            self._paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        self._paused = False
        self._transport.resume_reading()

    def is_closing(self) -> bool:
        """Return True as soon as the connection can carry no further answer."""
        return self._end is not None or self._transport.is_closing()

    def close(self) -> None:
        """Send what is written, then close: at once, or after the peer has done so."""
        if self.is_closing():
            return
        if not (self._may_be_sending() and self._transport.can_write_eof()):
            self._transport.close()
            return
        self._end = self._loop.call_later(self._seconds, self._transport.abort)
        self._transport.write_eof()
        if self._paused:
            self.resume_reading()

    def discard(self, size: int) -> None:
        """Count bytes that came after the last answer; too many of them end the connection."""
        self._left -= size
        if self._left < 0:
            self._transport.abort()

    def hurry(self) -> None:
        """Linger for a shorter time, also where that has begun."""
        self._seconds = HURRIED_SECONDS
        if self._end is not None:
            self._end.cancel()
            self._end = self._loop.call_later(self._seconds, self._transport.abort)

    def forget(self) -> None:
        """Cancel the timer of a connection that is lost."""
        if self._end is not None:
            self._end.cancel()
