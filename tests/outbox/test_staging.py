"""A message exists if and only if the transaction that staged it committed."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import sessionmaker

import duly
from tests.outbox.offices import LETTER, an_office
from tests.worker.subjects import cases

if TYPE_CHECKING:
    from tests.outbox.offices import Office
    from tests.worker.subjects import Case, DatabaseOf, Hand

WITHOUT_TX = cases(ways=["leased"])


class Trouble(Exception):
    """Something that goes wrong."""


async def in_transaction(office: Office, fails: bool) -> None:
    """Stage in ``app.transaction()``, which fails or does not."""
    if office.awaited:
        async with office.app.aio.transaction() as awaited:
            await awaited.send(office.url("/hook"), json=LETTER)
            if fails:
                raise Trouble
        return

    def blocking() -> None:
        with office.app.transaction() as tx:
            tx.send(office.url("/hook"), json=LETTER)
            if fails:
                raise Trouble

    await asyncio.to_thread(blocking)


@pytest.mark.promise("I11")
async def test_what_was_committed_arrives_with_its_id_and_body(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place) as office:
        plain = await office.send()
        await in_transaction(office, fails=False)
        staged = [row.id for row in office.messages()]
        relayed = await office.relay()

        assert plain.first
        assert plain.id in staged
        assert (relayed.sent, relayed.resent, relayed.retried, relayed.dead) == (2, 0, 0, 0)
        assert office.messages() == []
        arrived = office.there.requests
        assert sorted(one.headers["idempotency-key"] for one in arrived) == sorted(staged)
        assert {(one.method, one.path, json.loads(one.body)["order"]) for one in arrived} == {
            ("POST", "/hook", 7)
        }


@pytest.mark.promise("I11")
async def test_what_was_rolled_back_was_never_there(case: Case, place: DatabaseOf) -> None:
    async with an_office(case, place) as office:
        with pytest.raises(Trouble):
            await in_transaction(office, fails=True)
        assert office.messages() == []
        assert (await office.relay()).sent == 0
        assert office.there.requests == []


@pytest.mark.promise("I11", "one transaction")
async def test_a_message_of_a_handler_stays_or_goes_with_its_work(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place) as office:

        async def notify(hand: Hand) -> None:
            await hand.write(str(hand.job.attempt))
            sent = hand.tx.send(office.url("/hook"), json=hand.job.attempt, key=hand.job.id)
            assert (await hand.waited(sent)).first
            if hand.job.attempt < 3:
                raise Trouble

        office.subject.job(notify, attempts=3)
        job = await office.subject.enqueue()
        worked = await office.subject.work()
        assert (worked.done, worked.retried) == (1, 2)
        assert office.subject.records.notes(job) == ["3"]
        [message] = office.messages()
        await office.relay()
        assert [(one.body, one.headers["idempotency-key"]) for one in office.there.requests] == [
            (b"3", message.id)
        ]


@pytest.mark.parametrize(
    "case",
    cases(kinds=["sqlite", "postgres"], colours=["sync"], ways=["tx"]),
    ids=lambda case: case.name,
)
async def test_a_message_of_a_handler_in_the_users_orm_stays_or_goes_with_its_session(
    case: Case, place: DatabaseOf
) -> None:
    engine = create_engine(place.url.replace("postgresql:", "postgresql+psycopg:"))
    sent: list[str] = []

    def mail(message: Any) -> None:
        sent.append(message.text)

    async def notify(hand: Hand) -> None:
        hand.tx.session.execute(text("INSERT INTO workings (job, note) VALUES ('orm', 'x')"))
        hand.tx.send("mail:ann", json=hand.job.attempt)
        if hand.job.attempt == 1:
            raise Trouble

    async with case.open(place, begin=sessionmaker(engine)) as subject:
        subject.app.transport("mail")(mail)
        subject.job(notify, attempts=2)
        await subject.enqueue()
        assert (await subject.work()).done == 1
        await asyncio.to_thread(subject.app.relay)
        assert sent == ["2"]
        assert subject.records.notes("orm") == ["x"]
    engine.dispose()


async def test_a_handler_that_gives_up_sends_nothing(case: Case, place: DatabaseOf) -> None:
    async with an_office(case, place) as office:

        async def notify(hand: Hand) -> Any:
            await hand.waited(hand.tx.send(office.url("/hook")))
            raise duly.Dead("no such order")

        office.subject.job(notify)
        await office.subject.enqueue()
        assert (await office.subject.work()).dead == 1
        assert office.messages() == []


@pytest.mark.parametrize("case", WITHOUT_TX, ids=lambda case: case.name)
async def test_a_handler_without_a_transaction_stages_at_once_and_its_key_keeps_it_one(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place) as office:
        told: list[Any] = []

        async def notify(hand: Hand) -> None:
            verbs: Any = office.app.aio if office.awaited else office.app
            sent = verbs.send(office.url("/hook"), key=f"paid-{hand.job.id}")
            told.append(await hand.waited(sent))
            if hand.job.attempt == 1:
                raise Trouble

        office.subject.job(notify, attempts=2)
        await office.subject.enqueue()
        await office.subject.work()
        assert [one.first for one in told] == [True, False]
        assert [row.id for row in office.messages()] == [told[0].id] == [told[1].id]


async def test_sending_past_the_open_transaction_is_refused_with_the_remedy(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place) as office:
        url = office.url("/hook")

        async def past(hand: Hand) -> None:
            verbs: Any = office.app.aio if office.awaited else office.app
            with pytest.raises(duly.errors.UsageError, match=r"use tx\.send\(…\), or pass tx=tx"):
                await hand.waited(verbs.send(url))
            await hand.waited(verbs.send(url, json="joined", tx=hand.tx))

        office.subject.job(past)
        await office.subject.enqueue()
        assert (await office.subject.work()).done == 1
        await past_a_block(office, url)
        await office.relay()
        assert [one.body for one in office.there.requests] == [b'"joined"', b'"joined"']


async def past_a_block(office: Office, url: str) -> None:
    """The same in ``app.transaction()``."""
    refused = pytest.raises(duly.errors.UsageError, match=r"use tx\.send\(…\), or pass tx=tx")
    if office.awaited:
        async with office.app.aio.transaction() as awaited:
            with refused:
                await office.app.aio.send(url)
            await office.app.aio.send(url, json="joined", tx=awaited)
        return

    def blocking() -> None:
        with office.app.transaction() as tx:
            with refused:
                office.app.send(url)
            office.app.send(url, json="joined", tx=tx)

    await asyncio.to_thread(blocking)


async def test_a_transaction_of_the_other_colour_is_refused_with_its_verb(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place) as office:
        url = office.url("/hook")
        if office.awaited:
            async with office.app.aio.transaction() as awaited:
                with pytest.raises(
                    duly.errors.SyncAsyncMismatch, match=r"use await app\.aio\.send"
                ):
                    office.app.send(url, tx=awaited)  # type: ignore[arg-type]
        else:
            # The loop of the test runs here, and nothing else wants it meanwhile.
            refused = pytest.raises(duly.errors.SyncAsyncMismatch, match=r"use app\.send")
            with office.app.transaction() as tx, refused:
                await office.app.aio.send(url, tx=tx)  # type: ignore[arg-type]
        assert office.messages() == []


async def test_a_relay_that_blocks_is_refused_where_an_event_loop_runs(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place) as office:
        with pytest.raises(duly.errors.SyncAsyncMismatch, match=r"await app\.aio\.relay"):
            office.app.relay()


async def test_a_transaction_that_is_over_stages_nothing(case: Case, place: DatabaseOf) -> None:
    async with an_office(case, place) as office:
        url = office.url("/hook")
        over: Any
        if office.awaited:
            async with office.app.aio.transaction() as over:
                pass
        else:
            with office.app.transaction() as over:
                pass
        with pytest.raises(duly.errors.UsageError, match="this transaction is over"):
            await office.waited(over.send(url))
        assert office.messages() == []


async def test_what_is_refused_is_refused_before_anything_is_written(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place) as office:
        before = office.everything()
        mistakes: list[tuple[str, dict[str, Any]]] = [
            ("/hook", {"json": 1, "data": b"x"}),
            ("/hook", {"json": object()}),
            ("/hook", {"headers": {"Authorization": "Bearer x"}}),
            ("/hook", {"headers": {"Idempotency-Key": "x"}}),
            ("/hook", {"headers": {"webhook-id": "x"}}),
            ("/hook", {"headers": {"X-A": "two\r\nlines"}}),
            ("/hook", {"method": "TRACE"}),
            ("/hook", {"sign": "nobody"}),
            ("/hook", {"key": ""}),
            ("/hook", {"key": 7}),
            ("/hook", {"window": timedelta(hours=1)}),
            ("/hook", {"attempts": 0}),
            ("/hook", {"delay": timedelta(seconds=-1)}),
            ("carrier-pigeon:ann", {}),
            ("http://127.0.0.1:1/not-allowed", {}),
            ("http://169.254.169.254/latest", {}),
        ]
        for to, options in mistakes:
            with pytest.raises(duly.errors.DulyError):
                await office.send(to, **options)
        assert office.everything() == before


async def test_a_message_waits_for_its_time(case: Case, place: DatabaseOf, clock: Any) -> None:
    async with an_office(case, place, clock) as office:
        later = await office.send("/later", delay=timedelta(minutes=10))
        then = await office.send("/then", at=clock() + timedelta(minutes=20))
        past = await office.send("/past", at=clock() - timedelta(minutes=1))

        async def arrived() -> list[str]:
            await office.relay()
            return [one.path for one in office.there.requests]

        assert await arrived() == ["/past"]
        assert office.message(later.id).wait == timedelta(minutes=10)
        assert office.message(then.id).wait == timedelta(minutes=20)
        clock.advance(timedelta(minutes=10) - timedelta(microseconds=1))
        assert await arrived() == ["/past"]
        clock.advance(timedelta(microseconds=1))
        assert await arrived() == ["/past", "/later"]
        clock.advance(timedelta(minutes=10))
        assert await arrived() == ["/past", "/later", "/then"]
        assert office.history(past.id) == [(office.there.url, "sent", 1)]


async def test_methods_headers_and_bodies_arrive_as_they_were_staged(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place) as office:
        await office.send("/json?page=2", json={"ä": [1, None]}, headers={"X-Shop": "7"})
        await office.send("/bytes", data=b"\x00\xff\r\n", method="put")
        await office.send("/text", data="grüße", headers={"content-type": "text/csv"})
        await office.send("/form", data={"a b": "ä&"})
        await office.send("/none", data=b"", method="DELETE")
        await office.relay()
        found = {one.path: one for one in office.there.requests}
        assert json.loads(found["/json?page=2"].body) == {"ä": [1, None]}
        assert found["/json?page=2"].headers["content-type"] == "application/json"
        assert found["/json?page=2"].headers["x-shop"] == "7"
        assert (found["/bytes"].method, found["/bytes"].body) == ("PUT", b"\x00\xff\r\n")
        assert found["/text"].headers["content-type"] == "text/csv"
        assert found["/text"].body == "grüße".encode()
        assert found["/form"].body == b"a+b=%C3%A4%26"
        assert (found["/none"].method, found["/none"].body) == ("DELETE", b"")
        assert {one.headers["host"] for one in found.values()} == {f"127.0.0.1:{office.there.port}"}
