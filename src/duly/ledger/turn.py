"""A turn: what ``once`` hands to the body of its ``with`` block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.core import json_bytes
from duly.core.answers import Answer, Duplicate, not_a_boolean
from duly.core.errors import UsageError

if TYPE_CHECKING:
    from datetime import datetime

    from duly.core.json_bytes import Json, Storable

# Stands for "no result given", because None is a result.
NOT_GIVEN: Any = object()


class Turn:
    """Whether this call does the work: ``if turn.first:`` do it, and set ``turn.result`` if any.

    A result is encoded when it is set, so that one that cannot be stored is refused while the
    work can still be undone; later changes to the same list or dict are not seen.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._encoded: bytes | None = None
        self._sealed = False
        self._result: Json = answer.result if isinstance(answer, Duplicate) else None

    @property
    def answer(self) -> Answer:
        """The ledger's answer, as `dedup` would give it."""
        return self._answer

    @property
    def first(self) -> bool:
        """True if the caller does the work."""
        return self._answer.first

    @property
    def duplicate(self) -> bool:
        """True if the work was done before."""
        return self._answer.duplicate

    @property
    def first_seen(self) -> datetime | None:
        """When the key was first claimed."""
        return self._answer.first_seen

    @property
    def body_differs(self) -> bool:
        """True if the first claim came with another body."""
        return isinstance(self._answer, Duplicate) and self._answer.body_differs

    @property
    def has_result(self) -> bool:
        """True if there is a result; a stored None is one."""
        if isinstance(self._answer, Duplicate):
            return self._answer.has_result
        return self._encoded is not None

    @property
    def result(self) -> Json:
        """The stored result of a duplicate, or what was set in this turn."""
        return self._result

    @result.setter
    def result(self, value: Storable) -> None:
        if self._sealed:
            raise UsageError(
                "this turn is over: set its result inside its block, before marking it"
            )
        self.keep(value)

    def keep(self, value: Storable) -> None:
        """Set the result unless none was given."""
        if value is NOT_GIVEN:
            return
        if isinstance(self._answer, Duplicate):
            raise UsageError(
                "this turn is a duplicate, its result is the first one's: "
                "set turn.result only under `if turn.first:`"
            )
        self._encoded = json_bytes.encode(value)
        self._result = json_bytes.decode(self._encoded)

    def seal(self) -> None:
        """Refuse results from now on: the turn is over."""
        self._sealed = True

    @property
    def encoded(self) -> bytes | None:
        """The result as it will be stored; None where none was set."""
        return self._encoded

    def __bool__(self) -> bool:
        raise not_a_boolean(self)
