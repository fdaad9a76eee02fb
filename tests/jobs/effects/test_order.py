"""``order=``: of the versions of a resource a handler sees only those that move it forward."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from tests.jobs.effects.sources import BY_TIME, ORDER, Feed
from tests.jobs.enqueue.desks import Case

if TYPE_CHECKING:
    from collections.abc import Iterator

# Every pair of a store, a colour and a way, in six of the ten combinations.
WOVEN = [
    (Case("sqlite", "sync"), True),
    (Case("sqlite", "async"), False),
    (Case("memory", "sync"), False),
    (Case("memory", "async"), True),
    (Case("postgres", "sync"), False),
    (Case("postgres", "async"), True),
]
woven = pytest.mark.parametrize(
    ("case", "with_tx"), WOVEN, ids=lambda part: {True: "tx", False: "leased"}.get(part, str(part))
)
# What is decided before any statement needs no more than two of them.
some = pytest.mark.parametrize(("case", "with_tx"), WOVEN[2:4], ids=str)
AT_ONCE = duly.Backoff(first=timedelta(0))


@pytest.fixture
def feed(case: Case, with_tx: bool, request: pytest.FixtureRequest) -> Iterator[Feed]:
    """A source whose handlers the test registers."""
    with case.open(request) as desk:
        yield Feed(desk, with_tx=with_tx)


@woven
def test_an_event_that_comes_after_a_newer_one_is_passed_over_as_stale(
    case: Case, with_tx: bool, feed: Feed
) -> None:
    feed.on(order=ORDER)
    feed.on("audit")
    feed.on("second", order=ORDER)
    feed.tell("evt_2", version=2)
    worked = feed.tell("evt_1", version=1)
    feed.tell("evt_3", version=3)
    feed.tell("evt_4", version=1, resource="in_2")

    assert worked.stale == 2
    for guarded in ("apply", "second"):
        assert [version for name, version in feed.seen if name == guarded] == [2, 3, 1]
        assert feed.outcomes(guarded) == ["done", "stale", "done", "done"]
    assert [version for name, version in feed.seen if name == "audit"] == [2, 1, 3, 1]


@woven
def test_what_one_handler_applied_makes_nothing_stale_for_another(
    case: Case, with_tx: bool, feed: Feed
) -> None:
    feed.on(order=ORDER)
    feed.tell("evt_2", version=2)
    feed.on("second", order=ORDER)  # as a deploy adds it
    worked = feed.tell("evt_1", version=1)

    assert (worked.done, worked.stale) == (1, 1)
    assert feed.outcomes("apply") == ["done", "stale"]
    assert feed.outcomes("second") == ["done"]


@woven
def test_an_event_is_never_stale_to_itself(case: Case, with_tx: bool, feed: Feed) -> None:
    def fail_twice(event: Any) -> None:
        if len(feed.seen) < 3:
            raise ConnectionError

    feed.on(body=fail_twice, order=ORDER, backoff=AT_ONCE)
    worked = feed.tell("evt_1", version=7)

    assert (worked.retried, worked.done, worked.stale) == (2, 1, 0)
    assert feed.outcomes() == ["done"]


@woven
def test_a_forgotten_event_is_not_stale_to_itself_when_it_comes_again(
    case: Case, with_tx: bool, feed: Feed
) -> None:
    feed.on(order=ORDER)
    feed.tell("evt_1", version=7)
    feed.desk.call(feed.desk.verbs.forget, feed.desk.name, "evt_1")
    worked = feed.tell("evt_1", version=7)

    assert (worked.done, worked.stale) == (1, 0)
    assert feed.outcomes() == ["done", "done"]


@woven
def test_a_newer_event_that_failed_does_not_make_an_older_one_stale(
    case: Case, with_tx: bool, feed: Feed
) -> None:
    def fail_at_two(event: Any) -> duly.Dead | None:
        return duly.Dead("no such order") if feed.seen[-1][1] == 2 else None

    feed.on(body=fail_at_two, order=ORDER)
    feed.tell("evt_2", version=2)
    worked = feed.tell("evt_1", version=1)

    assert worked.done == 1
    assert feed.outcomes() == ["done"]


TIES = [
    ({"order": BY_TIME}, 2),  # of one second, each later than those before
    ({"order": BY_TIME, "tie": "skip"}, 1),
    ({"order": ORDER}, 1),  # the same change again
    ({"order": ORDER, "tie": "apply"}, 2),
]


@woven
@pytest.mark.parametrize(("options", "applied"), TIES)
def test_equal_times_apply_and_equal_numbers_do_not_unless_told(
    case: Case, with_tx: bool, options: dict[str, Any], applied: int, feed: Feed
) -> None:
    now = int(time.time())
    feed.on(**options)
    for number in (1, 2):
        feed.tell(f"evt_{number}", version=7, created=now)
    feed.tell("evt_3", version=6, created=now - 1)

    assert feed.outcomes() == ["done"] * applied + ["stale"] * (3 - applied)


@some
@pytest.mark.parametrize("version", [None, True, 1.5, [1], {}])
def test_an_event_without_its_version_is_dead_at_once_and_says_why(
    case: Case, with_tx: bool, version: object, feed: Feed
) -> None:
    feed.on(order=ORDER)
    members = {} if version is None else {"version": version}
    worked = feed.tell("evt_1", **members)

    assert worked.dead == 1
    assert feed.seen == []
    [error] = feed.dead()
    assert "is ordered by 'data.object.version', and this event has no text or" in error
    assert "correct order=, then replay it" in error


@woven
def test_a_version_of_another_kind_is_refused_before_the_handler_runs(
    case: Case, with_tx: bool, feed: Feed
) -> None:
    feed.on(order=ORDER, attempts=1)
    feed.tell("evt_1", version=7)
    worked = feed.tell("evt_2", version="8")

    assert (worked.dead, worked.stale) == (1, 0)
    assert feed.seen == [("apply", 7)]
    [error] = feed.dead()
    assert "a resource keeps its first kind" in error


@pytest.mark.parametrize(
    ("order", "tie"),
    [
        (("id",), None),
        (["id", "created"], None),
        (("id", ""), None),
        (("id", 1), None),
        ("id", None),
        (None, "apply"),
        (("id", "created"), "newest"),
    ],
)
def test_an_order_that_could_not_work_is_refused_at_registration(order: Any, tie: Any) -> None:
    app = duly.Duly("memory:")
    app.source("stripe", secret="whsec_" + "a" * 32)
    with pytest.raises(duly.errors.UsageError, match=r"two paths into the body|tie"):
        app.on("stripe", order=order, tie=tie)
    app.close()
