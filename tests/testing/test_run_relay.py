"""``run_relay``: messages are recorded, and nothing leaves the process unless it is asked for."""

import socket
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.testing import Trial, isolated, test_database
from tests.testing.shops import BOOKS, PAID, SECRET, tables

MAILED: list[tuple[str, str]] = []


def mail(message: duly.types.Message, key: str) -> None:
    MAILED.append((message.to, key))


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        pytest.fail("somebody opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def with_mail(shop: duly.Duly) -> duly.Duly:
    MAILED.clear()
    shop.transport("mail")(mail)
    return shop


def test_messages_are_recorded_instead_of_sent(no_network: None, trial: Trial) -> None:
    trial.deliver("stripe", PAID)
    trial.run_jobs()
    [message] = trial.run_relay()
    assert (message.method, message.url, message.json) == ("POST", BOOKS, {"paid": "evt_1"})
    assert message.headers["Idempotency-Key"] == message.key == message.id
    assert trial.app.outbox.find(message.id) is None  # as far as the app knows, it was sent
    assert trial.run_relay() == []
    assert trial.sent_messages == [message]


def test_what_is_recorded_is_signed_as_it_would_be(trial: Trial) -> None:
    trial.app.send(BOOKS, json={"paid": 1}, sign="ours")
    [message] = trial.run_relay()
    assert message.body is not None
    source = duly.Source("standard-webhooks", SECRET)
    assert duly.verify(source, message.headers, message.body).id == message.id


def test_messages_of_a_transaction_that_was_rolled_back_are_not_there(trial: Trial) -> None:
    with pytest.raises(ZeroDivisionError), trial.app.transaction() as tx:
        tx.send(BOOKS, json={"paid": 1})
        raise ZeroDivisionError
    assert trial.run_relay() == []


def test_they_are_told_in_the_order_in_which_they_were_staged(trial: Trial) -> None:
    for number in range(20):
        trial.app.send(f"https://{number % 3}.example/", json=number)
    assert [message.json for message in trial.run_relay()] == list(range(20))


def test_the_other_side_may_say_no(no_network: None, trial: Trial) -> None:
    sent = trial.app.send(BOOKS, json=1)
    assert len(trial.run_relay(answer=503)) == 1
    assert trial.run_relay() == []  # not before its time
    trial.clock.advance(hours=1)
    assert [message.attempt for message in trial.run_relay(answer=400)] == [2]
    [dead] = trial.app.outbox.dead(sent.id)
    assert dead.attempts == 2


def test_the_other_side_may_be_asked_about_each_message(trial: Trial) -> None:
    for number in range(4):
        trial.app.send(BOOKS, json=number)
    trial.run_relay(answer=lambda message: 200 if message.json % 2 else 410)
    assert sorted(letter.attempts for letter in trial.app.outbox.dead()) == [1, 1]


def test_the_other_side_may_be_away(trial: Trial) -> None:
    trial.app.send(BOOKS, json=1, attempts=3)
    assert len(trial.run_relay(answer=ConnectionError("reset"), until="settled")) == 3
    assert {message.key for message in trial.sent_messages} == {trial.sent_messages[0].key}
    [dead] = trial.app.outbox.dead()
    assert dead.attempts == 3


def test_a_transport_of_the_users_own_is_called_only_if_asked(shop: duly.Duly) -> None:
    with isolated(with_mail(shop)) as trial:
        trial.app.send("mail:ann@shop.example", json=1)
        assert [message.to for message in trial.run_relay()] == ["ann@shop.example"]
        assert MAILED == []

        sent = trial.app.send("mail:bob@shop.example", json=2)
        assert [message.id for message in trial.run_relay(send="really")] == [sent.id]
        [mailed] = MAILED
        assert mailed == ("bob@shop.example", sent.id)


async def test_the_same_holds_awaited_and_on_a_server(
    shop: duly.Duly, own_postgres_url: str, tmp_path: Path
) -> None:
    for url in (None, test_database(own_postgres_url)):
        with isolated(shop, url=url) as trial:
            tables(trial)
            await trial.deliver.aio("stripe", PAID, times=2)
            assert (await trial.run_jobs.aio()).done == ["record"]
            [message] = await trial.run_relay.aio()
            assert message.json == {"paid": "evt_1"}
            await trial.app.process.release_loop()


def test_a_mistake_is_told(trial: Trial) -> None:
    with pytest.raises(duly.errors.UsageError, match='"recorded" or "really"'):
        trial.run_relay(send="maybe")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "given"), [("503", "a str"), (None, "None"), (99, "99"), (lambda _: None, "None")]
)
def test_an_answer_that_is_none_is_refused(answer: Any, given: str, trial: Trial) -> None:
    trial.app.send(BOOKS, json={"paid": 1})
    with pytest.raises(
        duly.errors.UsageError, match=f"answer must be a status such as 200.*not {given}"
    ):
        trial.run_relay(answer=answer)
