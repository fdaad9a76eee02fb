"""Jobs with ``tx`` in the user's own ORM: work, child jobs and the end of the job in one commit."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from tests.stores.orm.shops import a_shop, do_all
from tests.stores.orm.test_transaction_end import ALCHEMY, Note
from tests.stores.orm.worlds import ON_POSTGRES, WORLDS, Hand, World, signed

if TYPE_CHECKING:
    from tests.stores.join.places import Place

pytestmark = pytest.mark.slow

everywhere = pytest.mark.parametrize("world", WORLDS, ids=str)
on_postgres = pytest.mark.parametrize("world", ON_POSTGRES, ids=str)
alchemy = pytest.mark.parametrize("world", ALCHEMY, ids=str)
AT_ONCE = duly.Backoff(first=timedelta(0))


@everywhere
async def test_work_child_jobs_and_the_end_of_the_job_are_one_commit_of_the_orm(
    world: World, place: Place, scope: str
) -> None:
    seen: list[Any] = []

    async def handle(job: Any, hand: Hand) -> None:
        await do_all(shop, hand)
        seen.append(shop.left())

    async with a_shop(world, place, scope) as shop:
        shop.job(handle)
        worked = await shop.worked_on()

        assert worked.done == 1
        assert seen == [(0, 0, 0)]
        assert shop.left() == (2, 2, 1)
        assert shop.count("jobs", "name") == 0
        if not place.is_sqlite:  # PostgreSQL tells which transaction wrote a row
            writers = place.rows(
                f"SELECT xmin::text FROM notes WHERE scope = '{scope}' UNION "
                f"SELECT xmin::text FROM duly_jobs WHERE name = '{scope}-child' UNION "
                f"SELECT xmin::text FROM duly_history WHERE name = '{scope}'"
            )
            assert len(writers) == 1


@everywhere
async def test_a_batch_is_one_commit_of_the_orm_or_each_job_has_its_own(
    world: World, place: Place, scope: str
) -> None:
    sizes: list[int] = []

    async def handle(jobs: list[Any], hand: Hand) -> None:
        sizes.append(len(jobs))
        for job in jobs:
            await hand.write(f"{scope} {job.payload}")
        if any(job.payload == "bad" for job in jobs):
            raise LookupError("not today")

    async with a_shop(world, place, scope) as shop:
        shop.bulk_job(handle, many=10)
        for payload in ("a", "b", "c"):
            await shop.enqueue(payload)
        assert (await shop.work()).done == 3
        assert (sizes, shop.left()) == ([3], (3, 0, 3))
        for payload in ("d", "bad", "e"):
            await shop.enqueue(payload)
        worked = await shop.work()
        assert (worked.done, worked.dead) == (2, 1)
        assert (sizes, shop.left()) == ([3, 3, 1, 1, 1], (5, 0, 5))


@on_postgres
async def test_a_batch_of_which_one_lease_is_lost_leaves_nothing_in_the_orm(
    world: World, place: Place, scope: str
) -> None:
    async def handle(jobs: list[Any], hand: Hand) -> None:
        for job in jobs:
            await hand.write(f"{scope} {job.payload}")
        if len(jobs) > 1:
            place.run(f"UPDATE duly_jobs SET epoch = epoch + 1 WHERE id = '{jobs[0].id}'")

    async with a_shop(world, place, scope) as shop:
        shop.bulk_job(handle, many=10)
        for payload in ("a", "b", "c"):
            await shop.enqueue(payload)
        worked = await shop.work()
        assert (worked.done, worked.lost) == (2, 1)
        assert len(place.notes(scope)) == 2


@everywhere
async def test_workers_and_relays_are_woken_after_the_commit_of_the_orm_and_never_before(
    world: World, place: Place, scope: str
) -> None:
    rung: list[str] = []

    async def handle(job: Any, hand: Hand) -> None:
        await do_all(shop, hand)
        await hand.waited(hand.tx.send("https://example.com/orders", json={}))
        assert rung == []
        if job.payload == "fails":
            raise LookupError("not today")

    def count(work: str) -> None:
        rung.append(work)
        assert shop.left() == (2, 2, 1)

    async with a_shop(world, place, scope) as shop:
        shop.job(handle)
        await shop.enqueue("fails")
        await shop.enqueue("works")
        shop.app.wakeup.add_listener("jobs", lambda: count("jobs"))
        shop.app.wakeup.add_listener("messages", lambda: count("messages"))
        worked = await shop.app.aio.work(queues={shop.name: 1})

        assert (worked.dead, worked.done) == (1, 1)
        assert sorted(rung) == ["jobs", "messages"]


@everywhere
async def test_an_error_rolls_everything_back_and_the_retry_does_it_once(
    world: World, place: Place, scope: str
) -> None:
    seen: list[Any] = []

    async def handle(job: Any, hand: Hand) -> None:
        seen.append(shop.left())
        await do_all(shop, hand)
        if job.attempt == 1:
            raise LookupError("not today")

    async with a_shop(world, place, scope) as shop:
        shop.job(handle, attempts=2, backoff=AT_ONCE)
        worked = await shop.worked_on()

        assert (worked.retried, worked.done) == (1, 1)
        assert seen == [(0, 0, 0), (0, 0, 0)]
        assert shop.left() == (2, 2, 1)


@everywhere
@pytest.mark.parametrize("outcome", [duly.Dead("no such order"), LookupError("not today")])
async def test_any_outcome_but_done_is_settled_without_what_was_written(
    world: World, place: Place, scope: str, outcome: Exception
) -> None:
    async def handle(job: Any, hand: Hand) -> None:
        await do_all(shop, hand)
        raise outcome

    async with a_shop(world, place, scope) as shop:
        shop.job(handle)
        worked = await shop.worked_on()

        assert worked.dead == 1
        assert str(outcome) in shop.error()
        assert shop.left() == (0, 0, 0)


@everywhere
async def test_a_lost_lease_rolls_the_orms_writes_back(
    world: World, place: Place, scope: str
) -> None:
    async def handle(job: Any, hand: Hand) -> None:
        await do_all(shop, hand)
        # As if another worker had it: the fence of the end must not find its row.
        await hand.execute("UPDATE duly_jobs SET epoch = epoch + 1 WHERE name = :name", name=scope)

    async with a_shop(world, place, scope) as shop:
        shop.job(handle)
        worked = await shop.worked_on()

        assert (worked.lost, worked.done) == (1, 0)
        assert shop.left() == (0, 0, 0)


@on_postgres
async def test_a_lease_taken_by_another_worker_meanwhile_rolls_them_back_too(
    world: World, place: Place, scope: str
) -> None:
    async def handle(job: Any, hand: Hand) -> None:
        await do_all(shop, hand)
        place.run(f"UPDATE duly_jobs SET epoch = epoch + 1 WHERE name = '{scope}'")

    async with a_shop(world, place, scope) as shop:
        shop.job(handle)
        worked = await shop.worked_on()

        assert (worked.lost, worked.done) == (1, 0)
        assert shop.left() == (0, 0, 0)


@everywhere
@pytest.mark.parametrize("ending", ["commit", "rollback", "close"])
async def test_ending_the_session_in_a_job_is_refused_and_nothing_is_half_done(
    world: World, ending: str, place: Place, scope: str
) -> None:
    async def handle(job: Any, hand: Hand) -> None:
        await do_all(shop, hand)
        await hand.waited(getattr(hand.tx.session, ending)())

    async with a_shop(world, place, scope) as shop:
        shop.job(handle)
        worked = await shop.worked_on()

        assert worked.dead == 1
        assert "return to commit" in shop.error()
        assert shop.left() == (0, 0, 0)


@everywhere
async def test_a_swallowed_refusal_is_committed_whole(
    world: World, place: Place, scope: str
) -> None:
    async def handle(job: Any, hand: Hand) -> None:
        await do_all(shop, hand)
        with suppress(duly.errors.UsageError):
            hand.tx.session.commit()

    async with a_shop(world, place, scope) as shop:
        shop.job(handle)

        assert (await shop.worked_on()).done == 1
        assert shop.left() == (2, 2, 1)


@on_postgres
async def test_an_error_of_the_database_that_a_job_swallows_is_not_done(
    world: World, place: Place, scope: str
) -> None:
    place.run(f"INSERT INTO notes VALUES ('other', '{scope}')")

    async def handle(job: Any, hand: Hand) -> None:
        await do_all(shop, hand)
        with suppress(Exception):  # as people do: PostgreSQL then rolls back at COMMIT
            await hand.write(scope)

    async with a_shop(world, place, scope) as shop:
        shop.job(handle)
        worked = await shop.worked_on()

        assert (worked.dead, worked.done) == (1, 0)
        assert shop.left() == (0, 0, 0)


@alchemy
async def test_objects_that_wait_for_their_flush_are_written_or_fail_with_the_job(
    world: World, place: Place, scope: str
) -> None:
    async def handle(job: Any, hand: Hand) -> None:
        hand.tx.session.add(Note(scope=scope, note=scope))  # flushed by the commit only

    async with a_shop(world, place, scope) as shop:
        shop.job(handle)
        assert (await shop.worked_on()).done == 1
        assert (await shop.worked_on()).dead == 1

        assert "unique" in shop.error().lower()
        assert shop.left() == (1, 0, 1)


@everywhere
async def test_an_event_is_handled_in_the_orms_transaction_too(
    world: World, place: Place, scope: str
) -> None:
    async def handle(job: Any, hand: Hand) -> None:
        await do_all(shop, hand)
        if job.attempt == 1:
            raise LookupError("not today")

    async with a_shop(world, place, scope) as shop:
        shop.on(handle, backoff=AT_ONCE)
        sent = signed(scope)
        reply = await shop.app.aio.receive(scope, sent.headers, sent.body)
        worked = await shop.work()

        assert reply.status == 200
        assert (worked.retried, worked.done) == (1, 1)
        assert shop.left() == (2, 2, 1)


@everywhere
async def test_a_transaction_of_the_apps_is_one_of_the_orms(
    world: World, place: Place, scope: str
) -> None:
    async def do(fails: bool) -> None:
        if world.colour == "async":
            async with shop.app.aio.transaction() as tx:
                await do_all(shop, Hand(world, scope, tx))
                if fails:
                    raise LookupError
        else:
            with shop.app.transaction() as blocking:
                await do_all(shop, Hand(world, scope, blocking))
                if fails:
                    raise LookupError

    async with a_shop(world, place, scope) as shop:
        with pytest.raises(LookupError):
            await do(fails=True)
        assert shop.left() == (0, 0, 0)
        await do(fails=False)
        assert shop.left() == (2, 2, 0)


@everywhere
async def test_a_transaction_of_the_other_colour_names_the_twin(
    world: World, place: Place, scope: str
) -> None:
    async with a_shop(world, place, scope) as shop:
        if world.colour == "async":
            with pytest.raises(
                duly.errors.SyncAsyncMismatch, match=r"async with app\.aio\.transaction"
            ):
                shop.app.transaction().__enter__()
        else:
            with pytest.raises(duly.errors.SyncAsyncMismatch, match=r"use with app\.transaction"):
                await shop.app.aio.transaction().__aenter__()


@pytest.mark.parametrize("world", WORLDS[:3], ids=str)
async def test_jobs_without_tx_may_have_either_colour(
    world: World, place: Place, scope: str
) -> None:
    ran: list[str] = []

    async with a_shop(world, place, scope) as shop:

        @shop.app.job(name=f"{scope}-blocking", queue=scope)
        def blocking(job: duly.Job) -> None:
            ran.append("blocking")

        @shop.app.job(name=f"{scope}-awaited", queue=scope)
        async def awaited(job: Any) -> None:
            ran.append("awaited")

        await shop.app.aio.enqueue(blocking)
        await shop.app.aio.enqueue(awaited)
        assert (await shop.work()).done == 2
    assert sorted(ran) == ["awaited", "blocking"]
