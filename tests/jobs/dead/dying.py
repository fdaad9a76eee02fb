"""Jobs that died at a desk, and what the tests ask about them, in the desk's colour."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.core.defaults import WAIT
from duly.core.failures import reason_record
from duly.core.onestep import finish
from duly.jobs.lease import JobSettlement, settle
from duly.jobs.outcome import JobOutcome
from tests.jobs.enqueue.desks import CASES
from tests.webhooks.genuine import keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.jobs.enqueue.desks import Desk

SECOND = timedelta(seconds=1)
SECRET = keys("github").receiver
NOT_THERE = "0198c3a2-5d1e-7b4f-9c60-8a2f41d7e305"
EVERY_STORE = pytest.mark.parametrize("case", CASES, ids=str)
AT_ONCE = duly.Backoff(first=timedelta(0), cap=timedelta(0))


def fail(job: Any) -> None:
    raise ValueError(f"no {job.payload}")


def killed(desk: Desk, payloads: list[Any], **options: Any) -> list[str]:
    """Jobs that died one after the other, each a second after the one before; without a worker."""
    if not desk.app.registries.jobs.plain:
        desk.job(fail, **options)
    ids = []
    for payload in payloads:
        ids.append(desk.enqueue(payload).id)
        each = [
            JobSettlement(
                desk.lease().lease,
                JobOutcome("dead", attempts_used=1, error=reason_record("no", 1)),
            )
        ]
        assert finish(desk.app.store.sync_runner.run(partial(settle, each=each), wait=WAIT))
        if desk.clock is not None:
            desk.clock.advance(SECOND)
    return ids


def letters(desk: Desk, *args: object, **filters: object) -> list[duly.types.DeadLetter]:
    found: list[duly.types.DeadLetter] = desk.call(desk.verbs.jobs.dead, *args, **filters)
    return found


def replay(desk: Desk, *args: object, **options: object) -> duly.types.Replayed:
    done: duly.types.Replayed = desk.call(desk.verbs.jobs.replay, *args, **options)
    return done


def received(desk: Desk, event_id: str, event_type: str, source: str) -> None:
    """Have the desk's application receive an event of a source that is named after the desk."""
    body = json.dumps({"id": event_id}).encode()
    signed = duly.sign("github", body, SECRET, id=event_id, type=event_type)
    reply = desk.call(desk.verbs.receive, source, signed.headers, body)
    assert reply.status == 200


def with_source(desk: Desk, body: Callable[[Any], Any], **options: Any) -> str:
    """A source whose events are handled, like the desk's job, by a function of the job."""
    source = f"s{desk.name[4:16]}"

    def blocking(event: Any, job: Any) -> Any:
        return body(job)

    async def awaited(event: Any, job: Any) -> Any:
        return await body(job)

    handler: Any = awaited if desk.colour == "async" else blocking
    desk.app.source(source, provider="github", secret=SECRET)
    desk.app.on(source, name=desk.name, queue=desk.name, **options)(handler)
    return source
