"""The keywords of `Tx.send`, for type checkers and editors."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from duly.core.json_bytes import Storable


class SendOptions(TypedDict, total=False):
    """The options of `Duly.send`, without ``tx``; it explains each."""

    json: Storable
    data: bytes | str | Mapping[str, str] | None
    headers: Mapping[str, str] | None
    sign: str | None
    key: str | bytes | None
    window: timedelta
    method: str
    delay: timedelta | None
    at: datetime | None
    attempts: int | None
