"""Work inside the accepting transaction: it is committed with its event, or neither is."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.receiver.records import WRITE
from tests.receiver.senders import PAID, text
from tests.receiver.subjects import WOVEN, Case
from tests.support.processes.leading import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import HandClock
    from tests.receiver.subjects import DatabaseOf, Subject

# Time for an answer that must not come yet.
MOMENT = 0.15


def broken(_: Any) -> None:
    raise RuntimeError("the shop is closed")


class Gate:
    """Holds the first handler that comes until it is opened; the others walk through."""

    def __init__(self, *, then_fail: bool = False) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()
        self._fails = then_fail

    def __call__(self, _: Any) -> None:
        if self.reached.is_set():
            return
        self.reached.set()
        assert self.opened.wait(PATIENCE)
        if self._fails:
            raise RuntimeError("the shop is closed")


@contextmanager
def held(subject: Subject, **options: Any) -> Iterator[Gate]:
    """The next handler is held; whatever happens, it is let go at the end."""
    subject.trouble = gate = Gate(**options)
    try:
        yield gate
    finally:
        gate.opened.set()


async def reached(gate: Gate) -> None:
    assert await asyncio.to_thread(gate.reached.wait, PATIENCE)


@pytest.mark.promise("I2", "I3", "one transaction")
async def test_a_handler_that_raises_leaves_nothing_and_its_senders_retry_works(
    inline: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with inline.open(place, clock) as subject:
        shop = subject.source(now=clock)
        before = subject.records.everything()
        subject.trouble = broken
        for _ in range(2):
            answer = await shop.send(id="evt_1")
            assert (answer.status, answer.said) == (500, "HANDLER_FAILED")
            assert "the shop is closed" not in answer.body.decode()
        assert subject.records.everything() == before

        subject.trouble = None
        assert (await shop.send(id="evt_1")).said == "accepted"
        assert (await shop.send(id="evt_1")).said == "duplicate"
        assert shop.worked() == [("evt_1", "handle")]


async def test_what_an_earlier_handler_wrote_goes_with_the_one_that_raises(
    inline: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with inline.open(place, clock) as subject:
        shop = subject.source("github", now=clock)  # two claims, which must both go
        before = subject.records.everything()

        def late(event: Any) -> None:
            if len(subject.seen) == 2:
                raise LookupError(event.id)

        subject.on(shop.name, "*", "second")
        subject.trouble = late
        answer = await shop.send(id="id_1", type="push")
        assert answer.said == "HANDLER_FAILED"
        assert "second" in answer.json["reason"]
        assert subject.records.everything() == before
        assert (await shop.send(id="id_1", type="push")).said == "accepted"
        assert shop.worked() == [("id_1", "handle"), ("id_1", "second")]


@pytest.mark.promise("one transaction")
async def test_of_one_delivery_all_events_are_handled_or_none(
    inline: Case, place: DatabaseOf, clock: HandClock
) -> None:
    batch = text([{"event": "open", "sg_event_id": f"sg_{n}", "email": "a@b.c"} for n in (1, 2, 3)])
    async with inline.open(place, clock) as subject:
        mails = subject.source("sendgrid", now=clock)
        before = subject.records.everything()
        subject.trouble = lambda event: broken(event) if event.id == "sg_2" else None
        assert (await mails.send(batch)).said == "HANDLER_FAILED"
        assert subject.records.everything() == before

        subject.trouble = None
        assert (await mails.send(batch)).json["accepted"] == 3
        assert mails.worked() == [(f"sg_{n}", "handle") for n in (1, 2, 3)]


async def test_a_copy_that_comes_during_the_work_waits_for_it_and_is_a_duplicate(
    inline: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with inline.open(place, clock) as subject:
        shop = subject.source(now=clock)
        with held(subject) as gate:
            first = asyncio.ensure_future(shop.send(id="evt_1"))
            await reached(gate)
            second = asyncio.ensure_future(shop.send(id="evt_1"))
            done, _ = await asyncio.wait([first, second], timeout=MOMENT)
            assert not done, "it was answered before the work was committed"
        assert [(await first).said, (await second).said] == ["accepted", "duplicate"]
        assert shop.worked() == [("evt_1", "handle")]


async def test_a_copy_that_comes_during_work_that_fails_is_processed_in_its_place(
    inline: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with inline.open(place, clock) as subject:
        shop = subject.source(now=clock)
        with held(subject, then_fail=True) as gate:
            first = asyncio.ensure_future(shop.send(id="evt_1"))
            await reached(gate)
            second = asyncio.ensure_future(shop.send(id="evt_1"))
        assert [(await first).said, (await second).said] == ["HANDLER_FAILED", "accepted"]
        assert shop.worked() == [("evt_1", "handle")]


async def test_a_deferred_copy_during_inline_work_waits_for_it_too(
    durable_inline: Case, place: DatabaseOf, clock: HandClock
) -> None:
    # Two releases of one application, side by side for the length of a deploy.
    deferring = Case(durable_inline.kind, durable_inline.server, "deferred")
    async with durable_inline.open(place, clock) as old, deferring.open(place, clock) as new:
        shop = old.source(now=clock)
        same = new.source(now=clock, name=shop.name)
        with held(old) as gate:
            first = asyncio.ensure_future(shop.send(id="evt_1"))
            await reached(gate)
            second = asyncio.ensure_future(same.send(id="evt_1"))
            done, _ = await asyncio.wait([first, second], timeout=MOMENT)
            assert not done, "it was answered before the work was committed"
        assert [(await first).said, (await second).said] == ["accepted", "duplicate"]
        assert shop.worked() == [("evt_1", "handle")]

        with held(old, then_fail=True) as gate:
            first = asyncio.ensure_future(shop.send(id="evt_2"))
            await reached(gate)
            second = asyncio.ensure_future(same.send(id="evt_2"))
        assert [(await first).said, (await second).said] == ["HANDLER_FAILED", "accepted"]
        assert new.records.jobs(shop.name) == [("evt_2", "handle")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "durable_inline",
    [
        Case("sqlite", "asgi", "inline"),
        Case("sqlite", "wsgi", "inline-async"),
        Case("postgres", "asgi", "inline-async"),
        Case("postgres", "wsgi", "inline"),
    ],
    ids=lambda case: case.name,
)
async def test_whoever_waits_too_long_for_the_work_is_told_to_come_again(
    durable_inline: Case, place: DatabaseOf, clock: HandClock
) -> None:
    deferring = Case(durable_inline.kind, durable_inline.server, "deferred")
    async with durable_inline.open(place, clock) as old, deferring.open(place, clock) as new:
        shop = old.source(now=clock)
        same = new.source(now=clock, name=shop.name)
        with held(old) as gate:
            first = asyncio.ensure_future(shop.send(id="evt_1"))
            await reached(gate)
            async with asyncio.timeout(5):  # most providers wait so long
                answers = await asyncio.gather(shop.send(id="evt_1"), same.send(id="evt_1"))
            for answer in answers:
                assert (answer.status, answer.said) == (503, "HELD")
                assert int(answer.headers["retry-after"]) >= 1
        assert (await first).said == "accepted"
        assert (await shop.send(id="evt_1")).said == "duplicate"
        assert (await same.send(id="evt_1")).said == "duplicate"
        assert shop.worked() == [("evt_1", "handle")]


@pytest.mark.promise("I3")
async def test_batches_in_opposite_orders_never_handle_an_event_twice(
    inline: Case, place: DatabaseOf, clock: HandClock
) -> None:
    items = [{"event": "open", "sg_event_id": f"sg_{n}", "email": "a@b.c"} for n in range(6)]
    async with inline.open(place, clock) as subject:
        mails = subject.source("sendgrid", now=clock)
        orders = [text(items), text(items[::-1])] * 3
        answers = await asyncio.gather(*map(mails.send, orders))
        # Two that wait for each other: one of them is told to come again, and does.
        late = [
            order for order, answer in zip(orders, answers, strict=True) if answer.status != 200
        ]
        assert {answer.status for answer in answers} <= {200, 503}
        for order in late:
            assert (await mails.send(order)).status == 200
        assert mails.worked() == [(f"sg_{n}", "handle") for n in range(6)]


@pytest.mark.parametrize("verb", ["commit", "rollback"])
async def test_a_handler_cannot_end_the_transaction_it_works_in(
    inline: Case, place: DatabaseOf, clock: HandClock, verb: str
) -> None:
    def ends(event: Any, tx: Any) -> None:
        getattr(tx.connection, verb)()

    async def ends_awaited(event: Any, tx: Any) -> None:
        await getattr(tx.connection, verb)()

    async with inline.open(place, clock) as subject:
        shop = subject.source(now=clock, handled=None)
        handler = ends if inline.way == "inline" else ends_awaited
        subject.app.on(shop.name, name="ends")(handler)
        before = subject.records.everything()
        answer = await shop.send(PAID, id="evt_1")
        assert (answer.status, answer.said) == (500, "HANDLER_FAILED")
        assert subject.records.everything() == before


@pytest.mark.parametrize(  # what blocks cannot be forgotten
    "inline",
    [case for case in WOVEN if case.way == "inline-async"],
    ids=lambda case: case.name,
)
async def test_a_handler_that_forgets_to_await_is_told_so_and_its_event_is_not_taken(
    inline: Case, place: DatabaseOf
) -> None:
    async with inline.open(place, None) as subject:
        shop = subject.source(handled=None)
        forgets = True

        @subject.app.on(shop.name, name="handle")
        async def handle(event: Any, tx: Any) -> None:
            asked = tx.execute(WRITE, source=event.source, event=event.id, handler="handle")
            if not forgets:
                await asked

        answer = await shop.send(id="evt_1")
        assert (answer.status, answer.said) == (500, "HANDLER_FAILED")
        assert subject.records.claims(shop.name) == []
        forgets = False
        assert (await shop.send(id="evt_1")).said == "accepted"
        assert shop.worked() == [("evt_1", "handle")]
