"""After a COMMIT that wrote jobs or messages the worker and the relay are woken; never before."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import duly

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from duly.core.session import WorkKind
    from tests.worker.subjects import Case, DatabaseOf, Hand, Subject

SECRET = "whsec_" + "A" * 32
URL = "https://example.com/orders"
COMMITTED = (
    "SELECT 'jobs' FROM duly_jobs WHERE name = 'child' UNION ALL SELECT 'messages' FROM duly_outbox"
)
CLEAR = "DELETE FROM duly_outbox"
# What a handler does with its tx, and who has work to do after it.
WRITES: dict[str, tuple[Callable[[Any, Subject], Any], set[WorkKind]]] = {
    "enqueue": (lambda tx, _: tx.enqueue("child"), {"jobs"}),
    "enqueue_many": (lambda tx, _: tx.enqueue_many("child", [1]), {"jobs"}),
    "send": (lambda tx, _: tx.send(URL, json={}), {"messages"}),
    "app.enqueue": (lambda tx, subject: verbs(subject).enqueue("child", tx=tx), {"jobs"}),
    "app.send": (lambda tx, subject: verbs(subject).send(URL, json={}, tx=tx), {"messages"}),
    "execute": (lambda tx, _: tx.execute("SELECT 1"), set()),
}
each_write = pytest.mark.parametrize("write", WRITES)
enqueue_and_send = pytest.mark.parametrize("write", ["enqueue", "send"])


def verbs(subject: Subject) -> Any:
    """The verbs of the app in the subject's mode."""
    return subject.app.aio if subject.case.colour == "async" else subject.app


class Rings:
    """How often the wake-up of an app rang for which work, and what was committed by then."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self.counts: Counter[WorkKind] = Counter()
        self.too_early: list[WorkKind] = []
        # What was counted when a handler was about to return.
        self.inside: list[set[WorkKind]] = []
        subject.app.wakeup.add_listener("jobs", partial(self._count, "jobs"))
        subject.app.wakeup.add_listener("messages", partial(self._count, "messages"))

    def _count(self, work: WorkKind) -> None:
        self.counts[work] += 1
        if (work,) not in self._subject.records.place.rows(COMMITTED):
            self.too_early.append(work)

    def handler(self, write: str, outcome: Exception | None = None) -> Callable[[Hand], Any]:
        """A handler that writes, and then returns or raises."""

        async def handle(hand: Hand) -> None:
            await hand.waited(WRITES[write][0](hand.tx, self._subject))
            self.inside.append(set(self.counts))
            if outcome is not None:
                raise outcome

        return handle


async def do_nothing(hand: Hand) -> None:
    """A child job."""


@asynccontextmanager
async def opened(case: Case, place: DatabaseOf) -> AsyncIterator[tuple[Subject, Rings]]:
    """An app whose rings are counted, on a database without a message in it."""
    async with case.open(place) as subject:
        subject.records.run(CLEAR)
        subject.job(do_nothing, "child")
        yield subject, Rings(subject)
        subject.records.run(CLEAR)


async def run_job(subject: Subject, rings: Rings, handler: Callable[[Hand], Any]) -> None:
    """Run one job and leave its child; only what rings meanwhile is counted."""
    subject.job(handler, "parent", queue="parent")
    await subject.enqueue("parent")
    rings.counts.clear()
    rings.too_early.clear()
    await subject.work(queues={"parent": 1})


@each_write
async def test_a_job_that_wrote_work_for_others_wakes_them_after_its_commit(
    with_tx: Case, place: DatabaseOf, write: str
) -> None:
    async with opened(with_tx, place) as (subject, rings):
        await run_job(subject, rings, rings.handler(write))
        assert rings.inside == [set()]
        assert rings.counts == Counter(WRITES[write][1])
        assert rings.too_early == []


@enqueue_and_send
async def test_a_job_that_is_rolled_back_wakes_nothing(
    with_tx: Case, place: DatabaseOf, write: str
) -> None:
    async with opened(with_tx, place) as (subject, rings):
        await run_job(subject, rings, rings.handler(write, LookupError("not today")))
        assert rings.inside == [set()]
        assert not rings.counts


async def test_a_job_whose_lease_was_lost_wakes_nothing(with_tx: Case, place: DatabaseOf) -> None:
    async with opened(with_tx, place) as (subject, rings):

        async def handle(hand: Hand) -> None:
            await rings.handler("enqueue")(hand)
            await hand.waited(hand.tx.execute("UPDATE duly_jobs SET epoch = epoch + 1"))

        await run_job(subject, rings, handle)
        assert rings.inside == [set()]
        assert not rings.counts


async def test_a_key_that_is_known_adds_no_job_and_wakes_nothing(
    with_tx: Case, place: DatabaseOf
) -> None:
    async with opened(with_tx, place) as (subject, rings):
        await subject.enqueue("child", key="once")

        async def handle(hand: Hand) -> None:
            assert (await hand.enqueue("child", key="once")).duplicate

        await run_job(subject, rings, handle)
        assert not rings.counts


@enqueue_and_send
@pytest.mark.parametrize("ending", ["commit", "rollback"])
async def test_a_transaction_of_the_apps_wakes_after_its_commit(
    with_tx: Case, place: DatabaseOf, write: str, ending: str
) -> None:
    make, after = WRITES[write]
    async with opened(with_tx, place) as (subject, rings):
        with suppress(LookupError):
            if with_tx.colour == "async":
                async with subject.app.aio.transaction() as awaited:
                    await make(awaited, subject)
                    rings.inside.append(set(rings.counts))
                    if ending == "rollback":
                        raise LookupError
            else:
                with subject.app.transaction() as blocking:
                    make(blocking, subject)
                    rings.inside.append(set(rings.counts))
                    if ending == "rollback":
                        raise LookupError
        assert rings.inside == [set()]
        assert rings.counts == Counter(after if ending == "commit" else ())
        assert rings.too_early == []


@enqueue_and_send
@pytest.mark.parametrize("ending", ["commit", "rollback"])
async def test_an_inline_handler_wakes_after_its_commit(
    with_tx: Case, place: DatabaseOf, write: str, ending: str
) -> None:
    async with opened(with_tx, place) as (subject, rings):
        app = subject.app
        app.source("shop", provider="standard-webhooks", secret=SECRET, inline=True)
        outcome = None if ending == "commit" else LookupError("not today")
        handler = subject.event_handler(rings.handler(write, outcome), inline=True)
        app.on("shop", name="handler")(handler)
        sent = duly.sign("standard-webhooks", b'{"type":"paid"}', SECRET, id=f"{write}-{ending}")
        if with_tx.colour == "async":
            reply = await app.aio.receive("shop", sent.headers, sent.body)
        else:
            reply = await asyncio.to_thread(app.receive, "shop", sent.headers, sent.body)
        assert (reply.status == 200) == (ending == "commit")
        assert rings.inside == [set()]
        assert set(rings.counts) >= (WRITES[write][1] if ending == "commit" else set())
        assert not rings.counts or ending == "commit"
