"""An event as a handler sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from duly.core.exports import export

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


@export
@dataclass(frozen=True, slots=True)
class Event:
    """What happened, by the account of its verified sender.

    Args:
        id: the id that the sender gave it, or ``body_`` and a digest where it gave none.
        type: its type, None where it names none.
        source: the name of the source it came from.
        tenant: whose it is, where the source tells tenants apart.
        body: the raw bytes; of an item of a batch, the item as JSON.
        headers: the headers that were kept, by lower-case name.
        json: the parsed body, or the item of a batch; None where it is not sound JSON.
        form: the fields of a form-encoded body, in their order; empty where it is no form.
        time: when it happened, where it says so.
        received_at: when it was received.
        current: what the source of truth said just before the handler ran, where it has
            ``refetch=``.
    """

    id: str
    type: str | None
    source: str
    tenant: str | None
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    json: Any = field(repr=False)
    form: tuple[tuple[str, str], ...] = field(repr=False)
    time: datetime | None
    received_at: datetime
    current: Any = field(default=None, repr=False)
