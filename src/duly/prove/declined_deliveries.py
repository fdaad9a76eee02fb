"""Deliveries that were not answered 2xx, which their senders retry.

The single run must succeed, or there is nothing to compare with. In a case a delivery may be
refused, be it because it came too early; what counts is what its sender hears in the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.core.errors import UsageError
from duly.prove.findings import RefusedDelivery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.prove.asks import Ask
    from duly.prove.child_main import ChildReport, ChildTask
    from duly.prove.databases import UnfinishedWork

REFUSALS = {
    "duplicate": "the database knows it already; begin with one that does not, or give --id",
    "ignored": "no handler of the source matches its type; is it the right event?",
    "too_old": "seen from the latest event its own time is before what its source remembers "
    "(window=); choose events that are closer together",
    "conflict": "the database knows its body under another id; give another one",
}


class DeclinedDeliveries:
    """What was not answered 2xx in a case, each with its latest answer of that kind."""

    def __init__(self) -> None:
        self._of: dict[Ask, RefusedDelivery] = {}

    def record_replies(self, act: ChildTask, report: ChildReport) -> None:
        """Take down what a process was answered; the copies of a delivery come together."""
        for number, (status, word) in enumerate(report.replies):
            if not is_success(status):
                ask = act.deliveries[number // act.copies]
                failure = report.failure if status >= 500 else ""
                self._of[ask] = RefusedDelivery(ask.destination_text, status, word, failure)

    def pop_all(self) -> tuple[Ask, ...]:
        """What their senders come with again; from here on only what is answered then counts."""
        found, self._of = tuple(self._of), {}
        return found

    @property
    def first(self) -> RefusedDelivery | None:
        """The first of them, if there are any."""
        return next(iter(self._of.values()), None)


def is_success(status: int) -> bool:
    """Whether a sender takes this answer as an acknowledgement."""
    return 200 <= status < 300


def refuse_failed(report: ChildReport, left: Sequence[UnfinishedWork], act: ChildTask) -> None:
    """A handler that fails alone cannot be proved."""
    for status, word in report.replies:
        if not is_success(status):
            answer = f"{status} {word}".strip()
            raise UsageError(
                f"the single delivery{act.deliveries[0].destination_text} was answered {answer}: "
                "let it "
                f"succeed first{report.failure}"
            )
        # Some sources answer without a body, and so do sites with an answer of their own. Where
        # such an event was not accepted, nothing is left to compare, and that is refused.
        outcome = word.partition(" ")[0]  # a reason may follow
        if outcome not in ("accepted", ""):
            raise UsageError(
                f"the single delivery was called {outcome}: {REFUSALS.get(outcome, '')}"
            )
    if left:
        one = left[0]
        told = f"{one.error[:300]}{one.place}"
        raise UsageError(f"in the single run the {one.what} {one.name} failed: {told}")
