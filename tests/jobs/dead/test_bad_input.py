"""Whatever a verb about dead letters cannot use ends in an error that says what to pass."""

from __future__ import annotations

import inspect
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import pytest

from duly.app.admin import JobAdmin
from tests.jobs.dead.dying import NOT_THERE, SECOND
from tests.jobs.enqueue.desks import Desk
from tests.support.refusals import refused

if TYPE_CHECKING:
    from duly.stores.join.drivers import Mode


TEXTS: list[object] = ["", 0, True, b"x", "a\0", "\ud800", "x" * 1001, object(), []]
IDS: list[object] = [None, "", 0, True, b"id", "evt_1", f"{NOT_THERE}0", "\ud800", object(), []]
MOMENTS: list[object] = [0, "2h", SECOND, datetime(2026, 1, 1), object(), []]
BAD: dict[str, list[object]] = {
    "job_id": IDS,
    "source": TEXTS,
    "type": TEXTS,
    "name": TEXTS,
    "since": MOMENTS,
    "until": MOMENTS,
    "limit": [None, 0, -1, True, 10_001, "1", object()],
    "all": [None, 1, "yes", object()],
    "dry_run": [None, 1, "yes", object()],
    "rate": [0, -1, True, "1", float("nan"), float("inf"), 1e-9, 1e9, object()],
    "effect": [None, "", 0, b"charge", "a\nb", "x" * 300, object()],
    "done": [None, 1, "yes", object()],
    "result": [object(), {1: 2}, (1,), float("nan")],
}
GOOD: dict[str, dict[str, object]] = {
    "dead": {},
    "replay": {"name": "nobody"},
    "discard": {"job_id": NOT_THERE},
    "resolve": {"job_id": NOT_THERE, "effect": "charge", "done": True},
}
OPTIONAL: dict[str, set[str]] = {
    "dead": {"job_id"},
    "replay": {"job_id"},
    "discard": set(),
    "resolve": set(),
}


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_what_a_verb_cannot_use_is_refused_with_what_to_pass(name: str, colour: Mode) -> None:
    desk = Desk("memory:", colour, None)
    verb = getattr(desk.verbs.jobs, name)
    for parameter in inspect.signature(verb).parameters:
        # The id of a job and all=True stand alone.
        good = {} if name == "replay" and parameter in ("job_id", "all") else GOOD[name]
        for value in BAD[parameter]:
            if value is not None or parameter not in OPTIONAL[name]:
                refused(name, parameter, partial(desk.call, verb, **good | {parameter: value}))
    desk.close()


def test_every_verb_of_dead_letters_is_in_this_walk() -> None:
    verbs = {name for name in vars(JobAdmin) if not name.startswith("_")}
    assert verbs == {*GOOD, "stats"}  # which takes nothing
