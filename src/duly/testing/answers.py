"""The answers to deliveries, as a test reads them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, overload

from duly.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one delivery.

    Args:
        status: the number of HTTP.
        headers: by lower-case name.
        body: the bytes.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, read as JSON; None where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def text(self) -> str:
        """The body, read as UTF-8."""
        return self.body.decode("utf-8", "replace")

    @property
    def word(self) -> str:
        """What duly said: ``accepted``, ``duplicate``, …, or the code of an error.

        Where an answer has no body, as with Discord, the phrase of its status.
        """
        found = self.json
        members = found if isinstance(found, dict) else {}
        word = members.get("error") or members.get("status")
        return str(word) if word else HTTPStatus(self.status).phrase

    def __repr__(self) -> str:
        return f"<{self.status} {self.text.strip() or self.word}>"


class Answers(Sequence[Answer]):
    """The answers to the copies of one event, in the order in which they came.

    Of a single one, ``status``, ``json`` and the rest can be read here directly.
    """

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._answers = tuple(answers)

    @overload
    def __getitem__(self, index: int) -> Answer: ...
    @overload
    def __getitem__(self, index: slice) -> Answers: ...

    def __getitem__(self, index: int | slice) -> Answer | Answers:
        if isinstance(index, slice):
            return Answers(self._answers[index])
        return self._answers[index]

    def __len__(self) -> int:
        return len(self._answers)

    @property
    def only(self) -> Answer:
        """The one answer there is."""
        if len(self._answers) != 1:
            raise UsageError(
                f"there are {len(self._answers)} answers: look at answers[0], answers.words, "
                "answers.statuses or answers.counts"
            )
        return self._answers[0]

    @property
    def status(self) -> int:
        """The status of the only answer."""
        return self.only.status

    @property
    def json(self) -> Any:
        """The body of the only answer, read as JSON."""
        return self.only.json

    @property
    def text(self) -> str:
        """The body of the only answer, as text."""
        return self.only.text

    @property
    def word(self) -> str:
        """What duly said in the only answer."""
        return self.only.word

    @property
    def words(self) -> list[str]:
        """What duly said in each."""
        return [answer.word for answer in self._answers]

    @property
    def statuses(self) -> list[int]:
        """The status of each."""
        return [answer.status for answer in self._answers]

    @property
    def counts(self) -> dict[str, int]:
        """How often each word was said."""
        return dict(Counter(self.words))

    def __repr__(self) -> str:
        if len(self._answers) == 1:
            return repr(self._answers[0])
        return "<" + ", ".join(f"{count} {word}" for word, count in self.counts.items()) + ">"
