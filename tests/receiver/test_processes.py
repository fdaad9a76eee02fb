"""The same promise across processes: each event is accepted by one of them."""

from __future__ import annotations

import uuid
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.receiver.process import Receiving
from tests.receiver.records import Records
from tests.receiver.subjects import Case

if TYPE_CHECKING:
    from tests.receiver.subjects import DatabaseOf

PROCESSES = 3
COPIES = 10
IDS = [f"evt_{number}" for number in range(5)]
CASES = [
    Case("sqlite", "asgi", "deferred"),
    Case("sqlite", "wsgi", "inline"),
    Case("postgres", "wsgi", "deferred"),
    Case("postgres", "asgi", "inline-async"),
]


@pytest.mark.promise("I5", "machines")
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_copies_that_reach_several_processes_are_accepted_once_and_acknowledged_by_all(
    case: Case, place: DatabaseOf
) -> None:
    source = f"shop-{uuid.uuid4().hex[:12]}"
    with ExitStack() as stack:
        started = [Receiving(place.url, case, source) for _ in range(PROCESSES)]
        running = [stack.enter_context(one) for one in started]
        assert [one.reply() for one in running] == ["ready"] * PROCESSES
        for one in running:
            one.send("deliver", copies=COPIES, ids=IDS)
        told: Counter[str] = Counter()
        for one in running:
            told.update(one.reply())

    sent = PROCESSES * COPIES * len(IDS)
    assert told == {"200 accepted": len(IDS), "200 duplicate": sent - len(IDS)}
    records = Records(place.looked_at)
    done = records.jobs(source) if case.way == "deferred" else records.effects(source)
    assert done == sorted((id, "handle") for id in [*IDS, "opening"])
    assert len(records.events(source)) == len(IDS) + 1
