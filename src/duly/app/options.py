"""The options of an app's verbs: their names and types.

A TypedDict names the keywords that several verbs share, once: type checkers and editors read them
from ``**options: Unpack[…]``, and `show_keywords` shows them in `help()`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from datetime import datetime


class JobFilters(TypedDict, total=False):
    """Which dead jobs are meant; `JobAdmin.dead` explains each."""

    source: str | None
    type: str | None
    name: str | None
    since: datetime | None
    until: datetime | None


class MessageFilters(TypedDict, total=False):
    """Which dead messages are meant; `OutboxAdmin.dead` explains each."""

    destination: str | None
    since: datetime | None
    until: datetime | None
