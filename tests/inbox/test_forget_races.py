"""A forget and a redelivery at the same moment: whichever wins, the event is accepted once."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import duly
from duly.core.defaults import WAIT
from duly.core.onestep import finish
from duly.errors import JobsPending
from duly.inbox.accept import receive_many
from duly.inbox.accept_one import receive_alone
from duly.inbox.forget import forget
from duly.inbox.new_event import EventOutcome, Status, event_digest
from duly.inbox.statements import CLAIMS_FORGET, EVENTS_FIND, EVENTS_FLAG
from duly.jobs.statements import JOBS_OF_EVENT
from tests.support.inboxes import a_job, arrival, found
from tests.support.processes.leading import PATIENCE, until
from tests.support.watching import waits

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from duly.core.session import Session
    from duly.inbox.forget import Forgotten
    from duly.inbox.new_event import NewEvent
    from tests.conftest import HandClock

JOBS = "SELECT count(*) FROM duly_jobs AS job JOIN duly_events AS event ON event.id = job.event"


class Interrupted:
    """A session that lets somebody else in right before one of its statements, once."""

    def __init__(self, session: Session, moment: str, meanwhile: Callable[[], None]) -> None:
        self._session = session
        self._moments = [moment]
        self._meanwhile = meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def rows(self, statement: str, **values: Any) -> Sequence[Any]:
        if statement in self._moments:
            self._moments.remove(statement)
            self._meanwhile()
        return await self._session.rows(statement, **values)


def delivered(store: duly.types.Store, event: NewEvent) -> EventOutcome:
    """Receive an event as the edge does: with others, and alone if that cannot be."""
    [outcome] = finish(receive_many(store.sync_runner, [event]))
    if outcome is not None:
        return outcome
    return finish(store.sync_runner.run(lambda session: receive_alone(session, event), wait=WAIT))


@pytest.mark.parametrize("signed", [True, False], ids=["id", "id and body"])
@pytest.mark.parametrize("moment", [CLAIMS_FORGET, EVENTS_FIND, JOBS_OF_EVENT, EVENTS_FLAG])
def test_a_redelivery_in_the_middle_of_a_forget_is_accepted_once(
    postgres_url: str, scope: str, clock: HandClock, moment: str, signed: bool
) -> None:
    replay = None if signed else event_digest(scope, "its body")
    first, again, later = (
        arrival(scope, "evt_1", replay=replay, signed=signed, jobs=jobs)
        for jobs in [(), (a_job(),), (a_job(),)]
    )
    redelivered: list[Future[EventOutcome]] = []

    def redeliver() -> None:
        if not redelivered:  # a forget that met a deadlock is run again
            redelivered.append(threads.submit(delivered, store, again))
        until(lambda: redelivered[0].done() or waits(postgres_url))

    with duly.store(postgres_url, clock=clock) as store, ThreadPoolExecutor(1) as threads:
        assert delivered(store, first).status is Status.ACCEPTED
        clock.advance(timedelta(days=31))  # the claim is there, and anybody may take it over
        forgetting = store.sync_runner.run(
            lambda session: forget(Interrupted(session, moment, redeliver), scope, "evt_1"),
            wait=WAIT,
        )
        with suppress(JobsPending):  # where the redelivery was quicker
            finish(forgetting)
        assert redelivered[0].result(PATIENCE).status is Status.ACCEPTED
        assert delivered(store, later).status is Status.DUPLICATE
        jobs = f"{JOBS} WHERE event.scope = '{scope}'"
        assert found(store, jobs) == [(1,)]


def test_who_forgets_what_somebody_else_has_locked_is_told_that_it_is_held(
    postgres_url: str, scope: str
) -> None:
    with duly.store(postgres_url) as store, psycopg.connect(postgres_url) as other:
        delivered(store, arrival(scope, "evt_1", jobs=()))
        other.execute("SELECT FROM duly_claims WHERE scope = %s FOR UPDATE", [scope])
        with pytest.raises(duly.errors.InProgress):
            finish(forgetting(store, scope))
        other.rollback()
        assert finish(forgetting(store, scope)).event_id == "evt_1"


def forgetting(store: duly.types.Store, scope: str) -> Coroutine[Any, Any, Forgotten]:
    """What an operator asks for."""
    return store.sync_runner.run(lambda session: forget(session, scope, "evt_1"), wait=WAIT)
