"""The test's end of a relay process: it is stopped, asked to end, killed, and listened to."""

from __future__ import annotations

import json
import os
import selectors
import signal
from typing import TYPE_CHECKING

from tests.faults.relaying.relays import ENDED, MODULE
from tests.faults.working.benches import free
from tests.processes import Led
from tests.processes.leading import PATIENCE

if TYPE_CHECKING:
    from tests.faults.relaying.posts import Post

# Longer than any test waits: nobody takes its messages over.
LONG = 60.0


class RelayProcess(Led):
    """A relay for the messages of one post."""

    def __init__(self, post: Post, lease: float = LONG) -> None:
        super().__init__(MODULE, post.url, post.there.url, str(lease))
        self._file = post.url if post.is_sqlite else None

    def hear(self, words: str) -> str:
        """Wait until it says this, and return all it says then; the rest is let go by."""
        with selectors.DefaultSelector() as ready:
            ready.register(self.replies, selectors.EVENT_READ)
            while True:
                assert ready.select(PATIENCE), f"it never said {words!r}"
                said = self.reply()
                assert said is not None, f"it ended and never said {words!r}"
                if words in said:
                    return str(said)

    def stop(self) -> None:
        """Freeze it where it stands, but not while it holds SQLite's only lock."""
        self.pause()
        while self._file is not None and not free(self._file):
            self.go_on()
            self.pause()

    def terminate(self) -> None:
        """Ask it to end."""
        os.kill(self.pid, signal.SIGTERM)

    def did(self) -> dict[str, int]:
        """What it says that it did, at its end."""
        found: dict[str, int] = json.loads(self.hear(ENDED).removeprefix(ENDED))
        assert self.ended() == 0
        return found
