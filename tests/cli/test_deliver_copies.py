"""The same event many times: as retries, or at one instant, and what is made of the replies."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from datetime import timedelta

import pytest

import duly
from duly.cli.main import main
from duly.testing.sender.copies import Burst
from duly.testing.sender.events import EventToSign
from duly.testing.sender.provider_delivery import ProviderDelivery
from duly.testing.sender.receiver_connection import DeliveryAnswer, ReceiverConnection
from duly.webhooks import Secret, provider_named
from tests.support.processes import until
from tests.support.receivers import Inbox, Receiver, Seen, receiving, told
from tests.webhooks.genuine import PROVIDERS, keys

Output = pytest.CaptureFixture[str]
DULY = [sys.executable, "-m", "duly"]


def inbox(provider: str) -> Inbox:
    return Inbox(duly.Source(provider, keys(provider).receiver))


def send(provider: str, receiver: Receiver | str, *options: str) -> int:
    url = receiver if isinstance(receiver, str) else receiver.url
    return main(["deliver", provider, url, "--secret", keys(provider).sender, *options])


def parcel_to(url: str) -> ProviderDelivery:
    """A delivery ready to be sent."""
    event, secret = EventToSign(b'{"id":"evt_1"}'), Secret(keys("stripe").sender)
    return ProviderDelivery(
        provider_named("stripe"), secret, url, event, {}, "genuine", timedelta(0)
    )


def ok(_: Seen) -> tuple[int, bytes]:
    return told(200, status="accepted")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_duplicate_has_the_same_id_and_body_and_is_told_as_one(
    provider: str, capsys: Output
) -> None:
    answer = inbox(provider)
    with receiving(answer) as receiver:
        assert send(provider, receiver, "--duplicate", "3") == 0
    assert {event.id for event in answer.events} == {answer.events[0].id}
    assert len({request.body for request in receiver.seen}) == 1
    assert len(answer.events) == 3
    *lines, summary = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["accepted", "duplicate", "duplicate"]
    assert summary == "3 copies: 1 accepted, 2 duplicate"


@pytest.mark.parametrize("provider", ["stripe", "discord"])
def test_a_retry_is_signed_anew_where_the_provider_does_so(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter(range(1_800_000_000, 1_900_000_000, 100))
    monkeypatch.setattr("duly.testing.sender.provider_delivery.time.time", lambda: next(moments))
    with receiving(lambda _: told(200, status="duplicate")) as receiver:
        assert send(provider, receiver, "--duplicate", "2") == 0
    header = {"stripe": "Stripe-Signature", "discord": "X-Signature-Timestamp"}[provider]
    first, second = (request.header(header) for request in receiver.seen)
    assert (first != second) == (provider == "stripe")


def test_concurrent_copies_are_on_their_way_at_the_same_instant(capsys: Output) -> None:
    count = 50
    together = threading.Barrier(count)
    answer = inbox("stripe")

    def all_or_none(request: Seen) -> tuple[int, bytes]:
        together.wait(timeout=20)  # no copy is answered before all have arrived
        return answer(request)

    with receiving(all_or_none) as receiver:
        assert send("stripe", receiver, "--concurrent", str(count)) == 0
    assert len({request.body for request in receiver.seen}) == 1
    output = capsys.readouterr()
    assert output.out == f"{count} copies: 1 accepted, {count - 1} duplicate\n"
    assert output.err.startswith("[")
    assert f"of {count} sent" in output.err


def test_no_copy_is_sent_before_all_of_them_are_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    connect, one, let_go = ReceiverConnection.open, threading.Semaphore(1), threading.Event()

    def open_late(line: ReceiverConnection) -> DeliveryAnswer | None:
        if one.acquire(blocking=False):
            assert let_go.wait(20)
        return connect(line)

    monkeypatch.setattr(ReceiverConnection, "open", open_late)
    with receiving(ok) as receiver:
        burst = Burst(parcel_to(receiver.url), 5, 10.0)
        burst.start()
        until(lambda: True if burst.waiting == 4 else None)
        assert receiver.seen == []
        let_go.set()
        answers = [burst.answers.get(timeout=20) for _ in range(5)]
    assert len(receiver.seen) == len(answers) == 5


def test_on_a_terminal_a_long_send_shows_a_bar_that_leaves_no_trace() -> None:
    ours, theirs = pty.openpty()
    with receiving(lambda _: told(200, status="duplicate")) as receiver:
        ended = subprocess.run(
            [*DULY, "deliver", "stripe", receiver.url, "--secret", "x", "--duplicate", "40"],
            stdout=subprocess.PIPE,
            stderr=theirs,
            check=True,
        )
    os.close(theirs)
    shown = os.read(ours, 10_000).decode()
    os.close(ours)
    assert shown.startswith("\r\x1b[K[........................] 1 of 40 sent")
    assert shown.endswith("\r\x1b[K")
    assert ended.stdout == b"40 copies: 40 duplicate\n"


def test_of_many_copies_only_the_unusual_are_shown_and_of_those_not_all(capsys: Output) -> None:
    replies = {
        3: told(500, error="HANDLER_FAILED", reason="it broke"),
        5: (200, b'{"status": "duplicate", "body_differs": true}'),
    }
    count = iter(range(10_000))
    with receiving(lambda _: replies.get(next(count), told(200, status="duplicate"))) as receiver:
        assert send("stripe", receiver, "--duplicate", "21") == 1
        first, second, summary = capsys.readouterr().out.splitlines()
        assert send("stripe", receiver, "--duplicate", "20") == 0
        assert len(capsys.readouterr().out.splitlines()) == 21
    assert first.startswith("500 HANDLER_FAILED  evt_")
    assert second.endswith(" ms  body_differs: this id came with another body before")
    assert summary == "21 copies: 20 duplicate, 1 HANDLER_FAILED (1 with body_differs)"
    with receiving(lambda _: told(503, error="OVERLOADED")) as receiver:
        assert send("stripe", receiver, "--duplicate", "50") == 1
    *lines, more, summary = capsys.readouterr().out.splitlines()
    assert len(lines) == 20
    assert more == "and 30 more that are unusual"
    assert summary == "50 copies: 50 OVERLOADED"


def test_an_event_that_is_accepted_twice_is_not_what_was_to_be_expected(capsys: Output) -> None:
    with receiving(ok) as receiver:
        assert send("stripe", receiver, "--duplicate", "2") == 1
    assert "accepted 2 times" in capsys.readouterr().err
