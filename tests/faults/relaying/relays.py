"""A relay in a process of its own: `python -m tests.faults.relaying.relays URL ORIGIN LEASE`.

It says what it logs, a line each, and at its end what it did. SIGTERM has it drain, a second one
has it give back what is on its way.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

from duly.runtime.relaying.settings import RelaySettings
from tests.faults.relaying.posts import sender

if TYPE_CHECKING:
    import duly
    from duly.runtime.relaying.relay import Relay

MODULE = "tests.faults.relaying.relays"
ENDED = "ended: "
COUNTS = ("sent", "resent", "again", "dead", "lost", "rescued")


class Telling(logging.Handler):
    """Says what duly logs."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def say(words: str) -> None:
    os.write(1, json.dumps(words).encode() + b"\n")  # in one piece: threads talk, too


def ended(relayed: duly.Relayed) -> str:
    """What it did, for whoever started it."""
    return ENDED + json.dumps({name: getattr(relayed, name) for name in COUNTS})


def told(relay: Relay) -> None:
    """Hear signals: the first one drains, the next one hurries."""
    loop = asyncio.get_running_loop()

    def first() -> None:
        loop.add_signal_handler(signal.SIGTERM, relay.stop_now)
        relay.stop()
        say("draining")

    loop.add_signal_handler(signal.SIGTERM, first)


async def run(app: duly.Duly, lease: float) -> None:
    settings = RelaySettings(lease=timedelta(seconds=lease), grace=timedelta(seconds=20))
    relay = app.relaying(settings)
    told(relay)
    say("ready")
    try:
        say(ended(await relay.run("stopped")))
    finally:
        await app.store.aclose_loop()


def main(url: str, origin: str, lease: str) -> None:
    logging.getLogger("duly").addHandler(Telling())
    app = sender(url, origin)
    asyncio.run(run(app, float(lease)))
    app.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
