"""The test's end of a relay process: it is stopped, asked to end, killed, and listened to."""

from __future__ import annotations

import os
import selectors
import signal
import time
from typing import TYPE_CHECKING, Any

from duly.server.shutdown import TOGETHER
from tests.relay.faults.relays import MODULE
from tests.support.processes import Led
from tests.support.processes.leading import PATIENCE
from tests.worker.faults.benches import free

if TYPE_CHECKING:
    from tests.relay.faults.posts import Post

# Longer than any test waits: nobody takes its messages over.
LONG = 60.0


class RelayProcess(Led):
    """`duly relay` for the messages of one post."""

    def __init__(self, post: Post, lease: float = LONG) -> None:
        super().__init__(MODULE, post.url, post.there.url, str(lease))
        self._file = post.url if post.is_sqlite else None

    def hear(self, words: str) -> dict[str, Any]:
        """Wait until it says this, and return all that it logs with it; the rest is let go by."""
        with selectors.DefaultSelector() as ready:
            ready.register(self.replies, selectors.EVENT_READ)
            while True:
                assert ready.select(PATIENCE), f"it never said {words!r}"
                said: dict[str, Any] | None = self.reply()
                assert said is not None, f"it ended and never said {words!r}"
                if words in said["message"]:
                    return said

    def stop(self) -> None:
        """Freeze it where it stands, but not while it holds SQLite's only lock."""
        self.pause()
        while self._file is not None and not free(self._file):
            self.go_on()
            self.pause()

    def drain(self) -> None:
        """Ask it to end, and wait until it has begun to."""
        os.kill(self.pid, signal.SIGTERM)
        self.hear("draining")

    def hurry(self) -> None:
        """Ask a second time, which is not heard before a moment has passed."""
        time.sleep(2 * TOGETHER)
        os.kill(self.pid, signal.SIGTERM)

    def did(self, code: int = 0) -> dict[str, int]:
        """What it says that it did, at its end."""
        found = self.hear("ended: ")
        assert self.ended() == code
        return found
