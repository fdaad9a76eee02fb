"""The application under attack: one source for each way of receiving, on the store that is named.

``DULY_TEST_STORE`` is the address of the store. ``DULY_TEST_BODY_SECONDS`` gives bodies less time
than they have by default, so that a test of slow senders is over soon.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from duly import Duly

if TYPE_CHECKING:
    from duly import Event

STORE = "DULY_TEST_STORE"
BODY_DEADLINE = "DULY_TEST_BODY_SECONDS"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
TOKEN = "a token that is only shown"
PROVIDER = "standard-webhooks"
LARGE = 25 * 1024 * 1024


def application(url: str | None = None) -> Duly:
    """What the server process serves; a test may ask for one of its own."""
    app = Duly(url or os.environ[STORE])
    app.router.body_deadline = float(os.environ.get(BODY_DEADLINE, app.router.body_deadline))
    app.source("hooks", provider=PROVIDER, secret=SECRET)
    app.source("packed", provider=PROVIDER, secret=SECRET, decompress=True)
    app.source("wide", provider=PROVIDER, secret=SECRET, decompress=True, max_body=LARGE)
    app.source("large", provider=PROVIDER, secret=SECRET, max_body=LARGE)
    app.source("inline", provider=PROVIDER, secret=SECRET, inline=True)
    app.source("github", secret="It's a Secret to Everybody")
    app.source("gitlab", secret=TOKEN)

    @app.on("hooks", name="remember")
    @app.on("gitlab", name="remember_it")
    def remember(event: Event) -> None:
        """Never runs here: what counts is that it is enqueued."""

    @app.on("inline", name="handle")
    def handle(event: Event) -> None:
        """Nothing to do."""

    return app
