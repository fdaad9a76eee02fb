"""The answers of the ledger: `First` and `Duplicate`, as values that cannot be misread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.core.errors import UsageError
from duly.core.exports import export

if TYPE_CHECKING:
    from datetime import datetime

    from duly.core.json_bytes import Json


def not_a_boolean(answer: object) -> UsageError:
    """The error of ``if dedup(...):``, refused because both readings of it are plausible."""
    return UsageError(
        f"a {type(answer).__name__} is not true or false: "
        "write `if answer.first:` or `if answer.duplicate:`"
    )


@export
@dataclass(frozen=True, slots=True)
class First:
    """This call is the first to claim the key: do the work.

    ``epoch`` grows by one each time the same key is claimed anew, after an expiry or a takeover.
    """

    first_seen: datetime | None
    epoch: int = 1

    @property
    def first(self) -> bool:
        """True: this call made the claim."""
        return True

    @property
    def duplicate(self) -> bool:
        """False: see `first`."""
        return False

    def __bool__(self) -> bool:
        raise not_a_boolean(self)


@export
@dataclass(frozen=True, slots=True)
class Duplicate:
    """The key was claimed before: the work is done, or will be by the one who was first.

    ``result`` is what the first one stored; ``has_result`` tells a stored ``None`` from none.
    ``body_differs`` is a fact, not an error: the same key came with another body.
    """

    first_seen: datetime | None
    result: Json = None
    has_result: bool = False
    body_differs: bool = False

    @property
    def first(self) -> bool:
        """False: another call made the claim."""
        return False

    @property
    def duplicate(self) -> bool:
        """True: see `first`."""
        return True

    def __bool__(self) -> bool:
        raise not_a_boolean(self)


Answer = First | Duplicate
