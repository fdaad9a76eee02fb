"""A decision whose reply was lost: nobody knows, and nobody is told that nothing was to be done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.ledger import replay as replaying
from tests.jobs.dead.dying import SECRET, killed, received, replay
from tests.jobs.enqueue.desks import Desk
from tests.support.proxies import Cut, Proxy, proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

each_colour = pytest.mark.parametrize("colour", ["sync", "async"])


@pytest.fixture
def wire(postgres_url: str) -> Iterator[Proxy]:
    with proxy(postgres_url) as opened:
        yield opened


@pytest.fixture
def desk(wire: Proxy, colour: Any) -> Iterator[Desk]:
    """An application on the far side of the wire, with a connection open already."""
    opened = Desk(wire.url, colour, None)
    replay(opened, name=opened.name)
    yield opened
    opened.close()


@each_colour
def test_a_replay_whose_commit_lost_its_reply_is_not_said_to_have_replayed_nothing(
    colour: str, wire: Proxy, desk: Desk
) -> None:
    [job] = killed(desk, [1])
    trap = wire.set(Cut.REPLY, "COMMIT")
    with pytest.raises(duly.errors.StoreUnavailable, match="could not be reached"):
        replay(desk, job)
    assert trap.sprung == 1
    assert desk.jobs() == [(job, "ready")]


@each_colour
def test_whoever_asks_again_after_a_lost_reply_replays_what_is_left(
    colour: str, wire: Proxy, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaying, "CHUNK", 2)
    first, second, third = killed(desk, [1, 2, 3])
    wire.set(Cut.REPLY, "COMMIT")
    with pytest.raises(duly.errors.StoreUnavailable, match="could not be reached"):
        replay(desk, name=desk.name)
    assert dict(desk.jobs()) == {first: "ready", second: "ready", third: "dead"}
    assert replay(desk, name=desk.name) == duly.types.Replayed((third,))


@each_colour
def test_a_replay_that_never_reached_the_database_is_told_and_has_changed_nothing(
    colour: str, wire: Proxy, desk: Desk
) -> None:
    [job] = killed(desk, [1])
    trap = wire.set(Cut.BEFORE, "COMMIT")
    with pytest.raises(duly.errors.StoreUnavailable, match="could not be reached"):
        replay(desk, job)
    assert trap.sprung == 1
    assert desk.jobs() == [(job, "dead")]
    assert replay(desk, job) == duly.types.Replayed((job,))


@pytest.fixture
def source(desk: Desk) -> str:
    """A source of the desk's that has received an event, and nothing to do about it."""
    name = f"s{desk.name[4:16]}"
    desk.app.source(name, provider="github", secret=SECRET)
    received(desk, "evt_1", "push", name)
    return name


@each_colour
def test_a_forget_whose_commit_lost_its_reply_is_not_said_to_have_found_nothing(
    colour: str, wire: Proxy, desk: Desk, source: str
) -> None:
    trap = wire.set(Cut.REPLY, "COMMIT")
    with pytest.raises(duly.errors.StoreUnavailable, match="could not be reached"):
        desk.call(desk.verbs.forget, source, "evt_1")
    assert trap.sprung == 1
    with pytest.raises(
        duly.errors.UsageError, match="nothing to forget"
    ):  # whoever asks again hears it
        desk.call(desk.verbs.forget, source, "evt_1")


@each_colour
def test_a_forget_that_never_reached_the_database_is_told_and_has_changed_nothing(
    colour: str, wire: Proxy, desk: Desk, source: str
) -> None:
    trap = wire.set(Cut.BEFORE, "COMMIT")
    with pytest.raises(duly.errors.StoreUnavailable, match="could not be reached"):
        desk.call(desk.verbs.forget, source, "evt_1")
    assert trap.sprung == 1
    assert desk.call(desk.verbs.forget, source, "evt_1").event_id == "evt_1"
