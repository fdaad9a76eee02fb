"""Many arrivals as the few parameters of one statement.

What they have in common, which is most of what a source's events have, is sent once as a row of
``kinds``. What is of one length is sent end to end. So a batch costs little more than its bodies.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly._kernel.session import Column, Value
    from duly.inbox.arrivals import Arrival

# What an array carries for no time.
NO_TIME = -(2**63)
NO_DIGEST = bytes(32)


class Columns:
    """The parameters of ``inbox_accept`` for one batch."""

    def __init__(self, arrivals: Sequence[Arrival]) -> None:
        self._arrivals = arrivals

    def values(self) -> dict[str, Value | Column]:
        """All of them."""
        return {**self._events(), **self._jobs()}

    def _events(self) -> dict[str, Value | Column]:
        arrivals = self._arrivals
        kinds: dict[tuple[object, ...], int] = {}
        guarded = any([one.replay is not None for one in arrivals])
        return {
            "kind": [kinds.setdefault(shared(one), len(kinds)) for one in arrivals],
            "kinds": json.dumps(list(kinds)),
            "fixed": b"".join([one.digest + one.fingerprint + one.token for one in arrivals]),
            "guards": b"".join([one.replay or NO_DIGEST for one in arrivals]) if guarded else b"",
            "event_id": [one.event_id for one in arrivals],
            "event_time": [
                NO_TIME if one.event_time is None else one.event_time for one in arrivals
            ],
            "headers": [one.headers for one in arrivals],
            "body": [one.body for one in arrivals],
        }

    def _jobs(self) -> dict[str, Value | Column]:
        handlers: dict[tuple[str, str, int], int] = {}
        jobs = [(place, job) for place, one in enumerate(self._arrivals) for job in one.jobs]
        return {
            "job_event": [place for place, _ in jobs],
            "job_handler": [
                handlers.setdefault((job.name, job.queue, job.attempts), len(handlers))
                for _, job in jobs
            ],
            "job_ids": bytes.fromhex("".join([job.id for _, job in jobs]).replace("-", "")),
            "handlers": json.dumps(list(handlers)),
        }


def shared(one: Arrival) -> tuple[object, ...]:
    """What an arrival has in common with most others of its batch."""
    return (
        one.scope,
        one.source,
        one.type,
        one.flag.value,
        one.status.value,
        one.secret,
        one.remote,
        one.ttl,
        one.body_ttl,
    )
