"""Many arrivals as the few parameters of one statement.

What they have in common, which is most of what a source's events have, is sent once, as a row of
``kinds``. What is plain text goes as JSON, what is bytes end to end. A driver turns an array into
bytes element by element, and a dozen arrays would cost more than the statement.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.core.session import Value
    from duly.inbox.new_event import NewEvent

NO_DIGEST = bytes(32)


def batch_values(arrivals: Sequence[NewEvent]) -> dict[str, Value]:
    """All parameters of ``inbox_accept``."""
    return {**event_values(arrivals), **job_values(arrivals)}


def event_values(arrivals: Sequence[NewEvent]) -> dict[str, Value]:
    """What is written about the events themselves."""
    kinds: dict[tuple[object, ...], int] = {}
    each: list[tuple[object, ...]] = []
    fixed: list[bytes] = []
    blobs: list[bytes] = []
    start = 0
    for one in arrivals:
        body = one.body or b""
        kind = kinds.setdefault(shared_fields(one), len(kinds))
        sizes = (start, len(one.headers), len(body))
        each.append((kind, one.event_id, one.event_time, *sizes))
        fixed += (one.digest, one.fingerprint, one.token)
        blobs += (one.headers, body)
        start += sizes[1] + sizes[2]
    guarded = any([one.replay is not None for one in arrivals])
    return {
        "kinds": json.dumps(list(kinds), ensure_ascii=False),
        "each": json.dumps(each, ensure_ascii=False),
        "fixed": b"".join(fixed),
        "guards": b"".join([one.replay or NO_DIGEST for one in arrivals]) if guarded else b"",
        "blobs": b"".join(blobs),
    }


def job_values(arrivals: Sequence[NewEvent]) -> dict[str, Value]:
    """The jobs of all events, each with the place of its own."""
    handlers: dict[tuple[str, str, int], int] = {}
    jobs = [(place, job) for place, one in enumerate(arrivals) for job in one.jobs]
    return {
        "jobs": json.dumps(
            [
                (place, handlers.setdefault((job.name, job.queue, job.attempts), len(handlers)))
                for place, job in jobs
            ]
        ),
        "job_ids": bytes.fromhex("".join([job.id for _, job in jobs]).replace("-", "")),
        "handlers": json.dumps(list(handlers)),
    }


def shared_fields(one: NewEvent) -> tuple[object, ...]:
    """What an arrival has in common with most others of its batch."""
    return (
        one.scope,
        one.source,
        one.type,
        one.flag,
        one.status,
        one.secret,
        one.remote,
        one.ttl,
        one.body_ttl,
    )
