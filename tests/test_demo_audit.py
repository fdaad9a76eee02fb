"""The audit can fail: each way to doctor the books is named by the lines that do not balance."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import islice
from random import Random
from typing import TYPE_CHECKING

import pytest

from duly.tools.demo.audit import audit, read
from duly.tools.demo.crew import Faults
from duly.tools.demo.events import SPREAD, Stream
from duly.tools.demo.line import Answer, Delivery, Outcome
from duly.tools.demo.place import Place, prepare
from duly.tools.demo.sender import Sender
from duly.tools.demo.worker import Handler

if TYPE_CHECKING:
    from pathlib import Path

LINES = 13


class Honest:
    """A small run without processes or faults, whose books balance."""

    def __init__(self, folder: Path, *, deliveries: int = 40) -> None:
        self._database = Place(folder).database
        prepare(Place(folder))
        self.sender = Sender(Stream(Random(1)), window=1)
        with closing(Handler(self._database)) as handler:
            for delivery in islice(self.sender.due(0.0), deliveries):
                outcome = handler.handle(delivery.event, lambda: None)
                self.sender.hear(Answer(delivery.number, 1, outcome), 0.0)

    def another(self) -> Delivery:
        """One more delivery, by when every copy is due."""
        return next(self.sender.due(SPREAD))

    def doctor(self, statement: str) -> None:
        with closing(sqlite3.connect(self._database)) as connection, connection:
            assert connection.execute(statement).rowcount > 0

    def unbalanced(self, kills: int = 0) -> set[str]:
        with closing(sqlite3.connect(self._database)) as connection:
            found = read(connection)
        checks = audit(found, self.sender.books(), Faults(kills, stops=0))
        assert len(checks) == LINES
        return {check.right for check in checks if not check.balances}


@pytest.fixture
def honest(tmp_path: Path) -> Honest:
    return Honest(tmp_path)


ONE = "event = 'evt_000001'"
ONE_CLAIM = "key_text = 'evt_000001'"


def test_an_honest_run_balances(honest: Honest) -> None:
    assert honest.unbalanced() == set()


@pytest.mark.parametrize(
    ("statement", "unbalanced"),
    [
        (
            f"INSERT INTO effects SELECT * FROM effects WHERE {ONE}",
            {"effects", "effects twice", "told first + told nobody"},
        ),
        (
            f"DELETE FROM effects WHERE {ONE}",
            {
                "effects",
                "events with an effect",
                "effects lost",
                "told first + told nobody",
            },
        ),
        (
            f"UPDATE duly_claims SET state = 'held', lease_until = 1 WHERE {ONE_CLAIM}",
            {"claims done", "claims still held", "effects not by newest lease"},
        ),
        (
            f"DELETE FROM duly_claims WHERE {ONE_CLAIM}",
            {"claims done", "effects not by newest lease"},
        ),
        (
            f"UPDATE effects SET event = 'evt_999999' WHERE {ONE}",
            {"effects lost", "effects from nowhere", "effects not by newest lease"},
        ),
        (f"UPDATE effects SET amount = 1 WHERE {ONE}", {"effects from nowhere"}),
        (
            f"UPDATE duly_claims SET epoch = epoch + 1 WHERE {ONE_CLAIM}",
            {"effects not by newest lease"},
        ),
        ("UPDATE accounts SET balance = balance + 1", {"balance"}),
    ],
)
def test_the_audit_names_what_does_not_balance(
    honest: Honest, statement: str, unbalanced: set[str]
) -> None:
    honest.doctor(statement)

    assert honest.unbalanced() == unbalanced


def test_an_event_told_first_twice_does_not_balance(honest: Honest) -> None:
    copy = honest.another()

    honest.sender.hear(Answer(copy.number, 1, Outcome.FIRST), SPREAD)

    assert honest.unbalanced() == {"told first + told nobody"}


def test_a_delivery_answered_twice_does_not_balance(honest: Honest) -> None:
    copy = honest.another()

    for _ in range(2):
        honest.sender.hear(Answer(copy.number, 1, Outcome.DUPLICATE), SPREAD)

    assert honest.unbalanced() == {"answered + cut off"}


def test_a_delivery_without_an_answer_balances_only_against_a_kill(honest: Honest) -> None:
    honest.another()

    assert honest.unbalanced(kills=0) == {"deliveries cut off"}
    assert honest.unbalanced(kills=1) == set()


def test_an_event_that_was_never_acknowledged_does_not_balance(tmp_path: Path) -> None:
    honest = Honest(tmp_path, deliveries=0)
    refused = honest.another()

    honest.sender.hear(Answer(refused.number, 1, Outcome.REFUSED), SPREAD)

    assert "events never acknowledged" in honest.unbalanced()
    assert "effects lost" in honest.unbalanced()
