"""What a database refuses is told in the log, and the row that it refused is not."""

import logging

import pytest

from duly.receiver import pipeline
from duly.receiver.log_throttle import LogThrottle
from tests.receiver.faults.doors import Answer
from tests.receiver.faults.shops import Mode, Shop
from tests.receiver.faults.test_poisoned_batches import ACCEPTING, REFUSING

pytestmark = pytest.mark.slow


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log says, tracebacks included."""
    formatter = logging.Formatter()
    return [formatter.format(record) for record in caplog.records]


@pytest.mark.parametrize(("way", "mode"), [("wsgi", "inline"), ("asgi", "inline async")])
def test_the_log_says_why_a_delivery_was_refused_and_shows_nothing_of_it(
    url: str,
    way: str,
    mode: Mode,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What another test met a moment ago would not be said again.
    monkeypatch.setattr(pipeline, "LOG_THROTTLE", LogThrottle(pipeline.logger))
    with Shop(url, way, mode) as shop:
        shop.warm()
        for statement in REFUSING[shop.books.is_sqlite]:
            shop.books.ask(statement)
        delivery = shop.delivery("evt_poison", "poison")
        with caplog.at_level(logging.DEBUG):
            answer = shop.post(delivery)
        shop.books.ask(ACCEPTING[shop.books.is_sqlite])
    told_why = [line for line in lines(caplog) if "could not be written" in line]
    assert len(told_why) == 1
    assert "poison" in told_why[0]  # the name of the constraint, or what the trigger raised
    shown = [*lines(caplog), said(answer)]
    signature = delivery.headers["webhook-signature"]
    for private in (delivery.body.decode(), delivery.body.hex(), signature, "DETAIL"):
        assert [line for line in shown if private in line] == []


def said(answer: Answer) -> str:
    """Everything that the sender was told."""
    assert answer.come_again
    return f"{answer.headers} {answer.body}"
