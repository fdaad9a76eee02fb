"""Transports of the user's own, blocking and awaited: they return, raise, decide, or hang."""

from __future__ import annotations

import asyncio
import sys
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.outbox.egress import Egress
from tests.outbox.offices import AT_ONCE, EVERY, STORES, an_office

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.outbox.message import Message
    from tests.conftest import HandClock
    from tests.outbox.offices import Office
    from tests.worker.subjects import Case, DatabaseOf

every_store = pytest.mark.parametrize("case", STORES, ids=lambda case: case.name)
TO = "mail:ann@example.com"


class Trouble(Exception):
    """Something that goes wrong."""


@dataclass
class Mail:
    """A transport that does as it is told, in the colour of the application."""

    acts: Callable[[Message], Any] = lambda _: None
    seen: list[tuple[Message, str]] = field(default_factory=list)

    def register(self, office: Office, **options: Any) -> None:
        """Make it the sender of ``mail:…``."""

        def blocking(message: Message, key: str) -> Any:
            self.seen.append((message, key))
            return self.acts(message)

        async def awaited(message: Message, key: str) -> Any:
            return blocking(message, key)

        options.setdefault("backoff", AT_ONCE)
        office.app.transport("mail", **options)(awaited if office.awaited else blocking)


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
async def test_a_transport_gets_the_message_and_its_key_and_returns_when_it_has_arrived(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    mail = Mail()
    async with an_office(case, place, clock) as office:
        mail.register(office)
        plain = await office.send(TO, json={"subject": "hällo"}, headers={"X-Tag": "a"})
        named = await office.send(TO, data="text", key="welcome-7")
        relayed = await office.relay()
        assert (relayed.sent, relayed.resent) == (2, 0)
        found = {message.id: (message, key) for message, key in mail.seen}
        message, key = found[plain.id]
        assert key == message.key == plain.id
        assert (message.url, message.to, message.attempt) == (TO, "ann@example.com", 1)
        assert message.json == {"subject": "hällo"}
        assert message.headers["X-Tag"] == "a"
        assert message.created_at == datetime(2026, 1, 1, tzinfo=UTC)
        message, key = found[named.id]
        assert key == message.key == named.id
        assert (message.text, message.body) == ("text", b"text")
        assert office.history(plain.id) == [("mail", "sent", 1)]


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
async def test_a_transport_that_raises_is_called_again_with_the_same_key(
    case: Case, place: DatabaseOf
) -> None:
    def acts(message: Message) -> None:
        if message.attempt < 3:
            raise Trouble(f"no answer {message.attempt}")

    mail = Mail(acts)
    async with an_office(case, place) as office:
        mail.register(office)
        staged = await office.send(TO)
        relayed = await office.relay()
        assert (relayed.sent, relayed.retried, relayed.resent) == (1, 2, 2)
        assert [message.attempt for message, _ in mail.seen] == [1, 2, 3]
        assert {(message.id, key) for message, key in mail.seen} == {(staged.id, staged.id)}
        assert office.history(staged.id) == [("mail", "sent", 3)]


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
async def test_a_transport_that_keeps_raising_ends_as_a_dead_letter_with_its_traceback(
    case: Case, place: DatabaseOf
) -> None:
    def acts(_: Message) -> None:
        raise Trouble("no answer")

    mail = Mail(acts)
    async with an_office(case, place) as office:
        mail.register(office, attempts=2)
        await office.send(TO)
        relayed = await office.relay()
        assert (relayed.retried, relayed.dead) == (1, 1)
        [letter] = await office.call("outbox.dead")
        assert letter.destination == "mail"
        assert letter.failure.message == "no answer"
        assert letter.failure.type.endswith("Trouble")
        assert "raise Trouble" in letter.failure.traceback


@every_store
@pytest.mark.parametrize("how", ["raised", "returned"])
async def test_a_transport_decides_with_retry_and_dead(
    case: Case, place: DatabaseOf, clock: HandClock, how: str
) -> None:
    answers = {
        "late": duly.Retry(after=timedelta(minutes=7)),
        "soon": duly.Retry(reason="busy"),
        "dead": duly.Dead("no such address"),
    }

    def acts(message: Message) -> Any:
        answer = answers[message.to]
        if how == "raised":
            raise answer
        return answer

    mail = Mail(acts)
    async with an_office(case, place, clock) as office:
        mail.register(office, backoff=duly.Backoff(first=timedelta(seconds=4)))
        ids = {to: (await office.send(f"mail:{to}")).id for to in answers}
        relayed = await office.relay()
        assert (relayed.sent, relayed.retried, relayed.dead) == (0, 2, 1)
        late, soon, dead = (office.message(ids[to]) for to in ("late", "soon", "dead"))
        assert (late.state, soon.state, dead.state) == ("ready", "ready", "dead")
        assert timedelta(minutes=7) <= late.wait <= timedelta(minutes=7, seconds=4)
        assert soon.wait <= timedelta(seconds=4)
        assert dead.error is not None
        assert (dead.error["type"], dead.error["message"]) == ("duly.Dead", "no such address")
        assert (late.attempts, soon.attempts, dead.attempts) == (1, 1, 1)


@every_store
async def test_a_transport_that_returns_a_class_of_outcome_has_not_sent(
    case: Case, place: DatabaseOf
) -> None:
    mail = Mail(lambda _: duly.Retry)
    async with an_office(case, place) as office:
        mail.register(office, attempts=1)
        staged = await office.send(TO)
        assert (await office.relay()).dead == 1
        error = office.message(staged.id).error
        assert error is not None
        assert "returned the class Retry: call it" in error["message"]


@every_store
async def test_a_transport_that_exits_ends_no_relay(case: Case, place: DatabaseOf) -> None:
    mail = Mail(lambda message: sys.exit(3) if message.to == "exit" else None)
    async with an_office(case, place) as office:
        mail.register(office, attempts=1)
        await office.send("mail:exit")
        await office.send("mail:ann")
        relayed = await office.relay()
        assert (relayed.sent, relayed.dead) == (1, 1)


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
async def test_a_transport_that_hangs_times_out_and_is_called_again(
    case: Case, place: DatabaseOf
) -> None:
    released = threading.Event()
    calls: list[int] = []

    def hangs(message: Message) -> None:
        calls.append(message.attempt)
        if message.attempt == 1:
            released.wait(20)

    async def hangs_awaited(message: Message) -> None:
        calls.append(message.attempt)
        if message.attempt == 1:
            await asyncio.sleep(20)

    async with an_office(case, place) as office:
        office.app.transport("mail", timeout=timedelta(seconds=1), backoff=AT_ONCE)(
            hangs_awaited if office.awaited else hangs
        )
        staged = await office.send(TO)
        relayed = await office.relay()
        released.set()
        assert (relayed.sent, relayed.retried) == (1, 1)
        assert calls == [1, 2]
        assert office.history(staged.id) == [("mail", "sent", 2)]


@every_store
async def test_a_transport_that_blocks_the_relay_holds_nobody_else_up(
    case: Case, place: DatabaseOf
) -> None:
    released = threading.Event()

    def blocks(message: Message) -> None:
        assert released.wait(20)

    def releases(message: Message) -> None:
        released.set()

    async with an_office(case, place) as office:
        office.app.transport("mail")(blocks)
        office.app.transport("text")(releases)
        await office.send(TO)
        await office.send("text:+4930123")
        assert (await office.relay()).sent == 2  # the first waits for the second


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
async def test_a_message_of_a_newer_deploy_waits_until_its_transport_and_signer_are_known(
    case: Case, place: DatabaseOf, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    mail = Mail()
    async with an_office(case, place, clock) as office:
        mail.register(office)
        office.app.signer("ours", secret="whsec_" + "A" * 32)
        mailed = await office.send(TO, attempts=2)
        signed = await office.send("/hook", sign="ours", attempts=2)
        known = office.app.registries.outbox
        transports, signers = dict(known.transports), dict(known.signers)
        known.transports.clear()
        known.signers.clear()
        for _ in range(3):  # more often than a message may fail
            relayed = await office.relay()
            assert (relayed.sent, relayed.dead) == (0, 0)
            clock.advance(timedelta(hours=8))
        row = office.message(signed.id)
        assert row.error is not None
        assert "this process has no signer ours" in row.error["message"]
        assert "this relay has no such transport" in caplog.text
        for id in (mailed.id, signed.id):
            assert office.message(id).counted == ("ready", 0, 0)
        known.transports.update(transports)
        known.signers.update(signers)
        relayed = await office.relay()
        assert (relayed.sent, relayed.resent) == (2, 0)
        assert [message.id for message, _ in mail.seen] == [mailed.id]
        assert [one.headers["webhook-id"] for one in office.there.requests] == [signed.id]


@every_store
async def test_an_origin_that_this_process_does_not_allow_waits_for_one_that_does(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with an_office(case, place, clock) as office:
        staged = await office.send(attempts=2)
        outgoing = office.app.registries.outbox
        allowed, outgoing.egress = outgoing.egress, Egress()
        for _ in range(3):  # more often than it may fail
            await office.relay()
            clock.advance(timedelta(hours=8))
        row = office.message(staged.id)
        assert row.counted == ("ready", 0, 0)
        assert row.error is not None
        assert "only https leaves this machine" in row.error["message"]
        assert office.there.connections == 0
        outgoing.egress = allowed
        relayed = await office.relay()
        assert (relayed.sent, relayed.resent) == (1, 0)


async def test_a_signer_of_the_users_own_signs_each_attempt(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with an_office(case, place, clock) as office:

        def billing(message: Message) -> dict[str, str]:
            return {"Authorization": f"Bearer {message.id}-{message.attempt}"}

        office.app.signer("billing")(billing)
        office.there.answer("/hook", 500, times=1)
        staged = await office.send(sign="billing")
        await office.relay()
        clock.advance(timedelta(hours=1))
        await office.relay()
        assert [one.headers["authorization"] for one in office.there.requests] == [
            f"Bearer {staged.id}-1",
            f"Bearer {staged.id}-2",
        ]


@every_store
async def test_a_signer_that_fails_lets_nothing_out(case: Case, place: DatabaseOf) -> None:
    async with an_office(case, place) as office:

        def billing(message: Message) -> dict[str, str]:
            raise Trouble("the key is gone")

        office.app.signer("billing")(billing)
        staged = await office.send(sign="billing", attempts=1)
        assert (await office.relay()).dead == 1
        assert office.there.requests == []
        error = office.message(staged.id).error
        assert error is not None
        assert "the key is gone" in str(error)
