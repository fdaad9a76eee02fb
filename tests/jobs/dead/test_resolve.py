"""What nobody knew of an effect is settled by a person, and the next run of its job knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import duly
from tests.jobs.dead.dying import (
    AT_ONCE,
    EVERY_STORE,
    NOT_THERE,
    fail,
    letters,
    received,
    replay,
    with_source,
)

if TYPE_CHECKING:
    from tests.jobs.enqueue.desks import Desk


class Charge:
    """A step that fails in a way that tells nobody whether it happened, then works."""

    def __init__(self, desk: Desk) -> None:
        self.colour = desk.colour
        self.keys: list[str] = []
        self.results: list[Any] = []

    def body(self, job: Any) -> Any:
        """What the handler does, in the desk's colour."""
        if self.colour == "async":
            return self._awaited(job)
        self.results.append(job.effect("charge", self.call, unknown="park"))
        return None

    async def _awaited(self, job: Any) -> None:
        async def call(key: str) -> object:
            return self.call(key)

        self.results.append(await job.effect("charge", call, unknown="park"))

    def call(self, key: str) -> object:
        self.keys.append(key)
        if len(self.keys) == 1:
            raise OSError("the connection was lost")
        return {"id": "ch_2"}


@pytest.fixture
def parked(desk: Desk) -> tuple[Charge, str]:
    """A job that was parked because of what nobody knows, and its id.

    A plain one where it blocks, and an event's where it is awaited.
    """
    charge = Charge(desk)
    options: dict[str, Any] = {"attempts": 3, "backoff": AT_ONCE}
    if desk.colour == "sync":
        desk.job(charge.body, **options)
        desk.enqueue()
    else:
        received(desk, "evt_1", "issues", with_source(desk, charge.body, **options))
    desk.work()
    [letter] = letters(desk, name=desk.name)
    assert letter.failure is not None
    assert "it is unknown whether effect 'charge' happened" in letter.failure.message
    assert [(one.name, one.key) for one in letter.unknown] == [("charge", charge.keys[0])]
    return charge, letter.id


@EVERY_STORE
def test_an_effect_that_a_person_found_done_is_not_made_again(
    desk: Desk, parked: tuple[Charge, str]
) -> None:
    charge, job = parked
    for _ in range(2):  # and saying the same twice does no harm
        desk.call(desk.verbs.jobs.resolve, job, "charge", done=True, result={"id": "ch_1"})
    assert letters(desk, job)[0].unknown == ()
    replay(desk, job)
    assert desk.work().done == 1
    assert (len(charge.keys), charge.results) == (1, [{"id": "ch_1"}])


@EVERY_STORE
def test_an_effect_that_a_person_found_undone_is_made_by_the_next_run(
    desk: Desk, parked: tuple[Charge, str]
) -> None:
    charge, job = parked
    replay(desk, job)
    desk.call(desk.verbs.jobs.resolve, job, "charge", done=False)  # ready as well as dead
    assert desk.work().done == 1
    assert charge.results == [{"id": "ch_2"}]
    assert len(charge.keys) == 2
    assert len(set(charge.keys)) == 1


@EVERY_STORE
def test_what_is_unknown_stays_so_after_the_event_was_forgotten(desk: Desk) -> None:
    charge = Charge(desk)
    source = with_source(desk, charge.body, attempts=3, backoff=AT_ONCE)
    received(desk, "evt_1", "issues", source)
    desk.work()
    [before] = letters(desk, source=source)
    assert desk.call(desk.verbs.forget, source, "evt_1").discarded == 1
    received(desk, "evt_1", "issues", source)
    desk.work()
    [letter] = letters(desk, source=source)
    assert letter.id != before.id
    assert letter.unknown == before.unknown
    desk.call(desk.verbs.jobs.resolve, letter.id, "charge", done=True)
    replay(desk, letter.id)
    assert desk.work().done == 1
    assert charge.results == [None]


@EVERY_STORE
def test_what_cannot_be_resolved_is_refused_and_changes_nothing(
    desk: Desk, parked: tuple[Charge, str]
) -> None:
    _, job = parked

    def resolve(job: str, effect: str, **options: object) -> str:
        with pytest.raises(duly.errors.UsageError) as refused:
            desk.call(desk.verbs.jobs.resolve, job, effect, **options)
        return str(refused.value)

    assert "has no effect 'charg' to resolve (these are unknown: charge)" in resolve(
        job, "charg", done=True
    )
    assert f"there is no job {NOT_THERE}" in resolve(NOT_THERE, "charge", done=True)
    assert "has no result: leave it out" in resolve(job, "charge", done=False, result=1)
    assert len(letters(desk, job)[0].unknown) == 1
    desk.call(desk.verbs.jobs.resolve, job, "charge", done=True, result=1)
    for options in ({"done": True, "result": 2}, {"done": False}):
        assert "is known: it was recorded as done" in resolve(job, "charge", **options)
    replay(desk, job)
    desk.lease()
    assert "is at work right now" in resolve(job, "charge", done=True)


@EVERY_STORE
def test_the_effects_of_a_job_at_work_are_its_own(desk: Desk) -> None:
    desk.job(fail)
    job = desk.enqueue().id
    desk.lease()
    with pytest.raises(duly.errors.UsageError, match="try again when it is dead or ready"):
        desk.call(desk.verbs.jobs.resolve, job, "charge", done=False)
