"""What the replies mean: whether they were to be expected, in lines for people and for programs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING

from duly.core.errors import Code
from duly.testing.sender.signers import without_secret

if TYPE_CHECKING:
    from duly.core.json_bytes import Json
    from duly.testing.sender.provider_delivery import Manner, ProviderDelivery
    from duly.testing.sender.receiver_connection import DeliveryAnswer

ACCEPTED = "accepted"
# In a summary these come first, in this order; all others follow by name.
ORDER = (ACCEPTED, "duplicate", "conflict", "ignored", "too_old")
# Taken, and yet nothing was done.
NOTABLE = frozenset({"conflict", "ignored", "too_old"})
DIFFERS = "body_differs: this id came with another body before"
# How receivers that are not duly refuse what is not genuine. Not 404: that is another mistake.
REFUSALS = frozenset({400, 401, 403, 422})
PARKED = (
    "the event was not processed: it is older than the receiver's memory. Leave out --keep-time, "
    "or raise window= of the source"
)
REASONS: dict[Manner, frozenset[str]] = {
    "genuine": frozenset(),
    "tampered": frozenset({Code.BAD_SIGNATURE, Code.MALFORMED}),
    "stale": frozenset({Code.STALE_TIMESTAMP}),
}
SURPRISES: dict[Manner, str] = {
    "genuine": "a genuine delivery was not taken",
    "tampered": "a changed body was not refused as such: does the receiver verify the raw bytes?",
    "stale": "an old signature was not refused as such: does the receiver look at the signed time?",
}
# The likely mistake of the sender, by what the receiver said of a genuine delivery.
HINTS = {
    "BAD_SIGNATURE": "was it signed with the secret that the source has?",
    "UNKNOWN_SOURCE": "no source has this path; duly serve prints those that it has",
}
FOREIGN_404 = "does duly serve this path, or another program?"


@dataclass(slots=True)
class DeliveryReport:
    """The answers to the copies of one event."""

    delivery: ProviderDelivery
    event_id: str
    answers: list[DeliveryAnswer] = field(default_factory=list)

    def add(self, answer: DeliveryAnswer) -> str:
        """Add an answer, and return its line."""
        answer = self._without_secret(answer)
        self.answers.append(answer)
        status = "---" if answer.status is None else str(answer.status)
        line = f"{status} {answer.word}  {self.event_id}  {answer.seconds * 1000:.0f} ms"
        note = answer.reason or (DIFFERS if answer.body_differs else "")
        return f"{line}  {note}" if note else line

    def last_is_unusual(self) -> bool:
        """Whether the answer that came last should be seen among a thousand others."""
        last = self.answers[-1]
        return (
            not is_expected(last, self.delivery)
            or last.body_differs
            or last.word in NOTABLE
            or (last.word == ACCEPTED and self._counts()[ACCEPTED] > 1)
        )

    def summary(self) -> str:
        """All of them in one line."""
        counts = ", ".join(f"{count:,} {word}" for word, count in self._counts().items())
        differ = sum(one.body_differs for one in self.answers)
        more = f" ({differ:,} with body_differs)" if differ else ""
        return f"{len(self.answers):,} copies: {counts}{more}"

    def surprise(self) -> str | None:
        """What was not to be expected, if anything."""
        if any(one.too_old for one in self.answers):
            return PARKED
        unexpected = [one for one in self.answers if not is_expected(one, self.delivery)]
        if any(one.status is not None for one in unexpected):
            hint = hint_for(unexpected) if self.delivery.manner == "genuine" else None
            surprise = SURPRISES[self.delivery.manner]
            return f"{surprise}: {hint}" if hint else surprise
        if unexpected:
            return describe_unanswered(len(unexpected), len(self.answers))
        accepted = self._counts().get(ACCEPTED, 0)
        if accepted > 1:
            return f"one event was accepted {accepted:,} times"
        return None

    def document(self) -> Json:
        """Everything, for programs."""
        return {
            "provider": self.delivery.provider.name,
            "url": self.delivery.url,
            "event": self.event_id,
            "sent": self.delivery.manner,
            "deliveries": [answer_json(one) for one in self.answers],
            "counts": dict(self._counts()),
            "expected": self.surprise() is None,
        }

    def _counts(self) -> dict[str, int]:
        counted = Counter(answer.word for answer in self.answers)
        known = [word for word in ORDER if word in counted]
        return {word: counted[word] for word in [*known, *sorted(counted.keys() - set(ORDER))]}

    def _without_secret(self, answer: DeliveryAnswer) -> DeliveryAnswer:
        """What the receiver said, without the secret: it may repeat what was sent to it."""
        word, reason = (
            without_secret(text, self.delivery.secret) for text in (answer.word, answer.reason)
        )
        return replace(answer, word=word, reason=reason)


def hint_for(refusals: list[DeliveryAnswer]) -> str | None:
    """The likely mistake, where all refusals say the same."""
    if len({(one.status, one.word) for one in refusals}) != 1:
        return None
    first = refusals[0]
    if first.error:
        return HINTS.get(first.word)
    return FOREIGN_404 if first.status == HTTPStatus.NOT_FOUND else None


def describe_unanswered(count: int, of: int) -> str:
    """Silence says nothing about the delivery: it may have been taken, or not."""
    if of == 1:
        return "there was no answer"
    return f"{count:,} {'copy' if count == 1 else 'copies'} got no answer"


def answer_json(answer: DeliveryAnswer) -> Json:
    """One answer, for programs."""
    return {
        "status": answer.status,
        "reply": answer.word,
        "reason": answer.reason,
        "body_differs": answer.body_differs,
        "milliseconds": round(answer.seconds * 1000, 3),
    }


def is_expected(answer: DeliveryAnswer, delivery: ProviderDelivery) -> bool:
    """Whether a receiver that does its work answers like this."""
    if answer.status is None:
        return False
    if delivery.manner == "genuine":
        return 200 <= answer.status < 300 and not answer.too_old
    if answer.error and answer.word in set(Code):
        return answer.word in REASONS[delivery.manner]
    return answer.status in REFUSALS or answer.status == delivery.provider.reject
