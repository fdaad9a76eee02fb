"""A lost reply makes no second job: one with a key is asked again, one without never is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.core.defaults import WAIT
from duly.core.onestep import finish
from duly.jobs.enqueue import enqueue_many
from tests.jobs.enqueue.desks import CASES, Case, Desk
from tests.support.proxies import Cut, Proxy, proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

everywhere = pytest.mark.parametrize("case", CASES, ids=str)
over_the_wire = pytest.mark.parametrize("colour", ["sync", "async"])
each_cut = pytest.mark.parametrize("cut", [Cut.BEFORE, Cut.REPLY], ids=lambda cut: cut.name)
WAYS: dict[str, tuple[Any, dict[str, Any]]] = {
    "one": ("payload", {"key": "receipt-1"}),
    "many": ([1, 2], {"keys": ["receipt-1", "receipt-2"]}),
}


@pytest.fixture
def wire(postgres_url: str) -> Iterator[Proxy]:
    with proxy(postgres_url) as opened:
        yield opened


@pytest.fixture
def desk(wire: Proxy, colour: Any) -> Iterator[Desk]:
    """An application on the far side of the wire, with a connection open already."""
    opened = Desk(wire.url, colour, None)
    opened.job(lambda _: None)
    opened.enqueue("warm", key="warm")
    opened.complete()
    yield opened
    opened.close()


def enqueued(desk: Desk, way: str, *, keyed: bool) -> list[duly.types.Enqueued]:
    """One job or two, with keys or without."""
    given, options = WAYS[way]
    verb = desk.enqueue if way == "one" else desk.enqueue_many
    made: Any = verb(given, **(options if keyed else {}))
    return list(made) if way == "many" else [made]


@over_the_wire
@each_cut
@pytest.mark.parametrize("way", WAYS)
def test_a_keyed_enqueue_that_lost_its_commit_is_first_and_makes_no_second_job(
    way: str, cut: Cut, colour: str, wire: Proxy, desk: Desk
) -> None:
    trap = wire.set(cut, "COMMIT")
    made = enqueued(desk, way, keyed=True)
    again = enqueued(desk, way, keyed=True)

    assert trap.sprung == 1
    assert all(one.first for one in made)
    assert again == [duly.types.Enqueued(one.id, first=False) for one in made]
    assert sorted(job for job, _ in desk.jobs()) == sorted(one.id for one in made)


@over_the_wire
@each_cut
@pytest.mark.parametrize("way", WAYS)
def test_an_enqueue_without_a_key_is_not_run_again_after_a_lost_reply(
    way: str, cut: Cut, colour: str, wire: Proxy, desk: Desk
) -> None:
    trap = wire.set(cut, "INSERT INTO" if cut is Cut.BEFORE else "INSERT 0", times=5)
    with pytest.raises(duly.errors.StoreUnavailable):
        enqueued(desk, way, keyed=False)
    wire.trap = None

    assert trap.sprung == 1
    committed = {"one": 1, "many": 2}[way] if cut is Cut.REPLY else 0
    assert len(desk.jobs()) == committed


@everywhere
@pytest.mark.parametrize("state", ["ready", "done"])
def test_a_rerun_recognises_what_the_lost_run_committed_even_after_the_job_is_done(
    case: Case, state: str, request: pytest.FixtureRequest
) -> None:
    with case.open(request) as desk:
        desk.job(lambda _: None)
        new = desk.app.registries.jobs.new(desk.name, "payload", key="receipt-1")
        runner = desk.app.store.sync_runner

        def run() -> list[duly.types.Enqueued]:
            return finish(runner.run(lambda session: enqueue_many(session, [new]), wait=WAIT))

        first = run()
        if state == "done":
            desk.complete()
        left = desk.jobs()

        assert run() == first == [duly.types.Enqueued(new.id, first=True)]
        assert desk.jobs() == left
