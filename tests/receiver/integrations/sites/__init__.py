"""The applications that the servers serve, one module for each framework.

Each has two sources: ``orders`` writes jobs, ``ledger.v2`` runs its handler inline. The header
``X-Meddle`` tells a middleware of the site's what to do with the body before duly sees it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duly

if TYPE_CHECKING:
    from duly.stores.join.protocols import BeginsTransactions

SECRET = "whsec_" + "A" * 32
DEFERRED, INLINE = "orders", "ledger.v2"
LIMIT = 20_000
WRITE = "INSERT INTO notes (scope, note) VALUES (:scope, :note)"


def shop(url: str | None, begin: BeginsTransactions | None = None) -> duly.Duly:
    """An application with both kinds of source."""
    app = duly.Duly(url, begin=begin)
    for name in (DEFERRED, INLINE):
        app.source(
            name, provider="standard-webhooks", secret=SECRET, inline=name == INLINE, max_body=LIMIT
        )

    @app.on(DEFERRED, name="ship")
    def ship(job: Any) -> None:
        """A job for a worker that never comes."""

    @app.on(INLINE, name="note")
    def note(event: duly.Event, tx: duly.Tx) -> None:
        tx.execute(WRITE, scope=event.source, note=event.id)

    return app
