"""An event as a handler sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from duly.core.exports import export
from duly.webhooks.strict_json import UnreadableBody, parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

NOT_PARSED: Final = object()


def parse_plain(body: bytes) -> Any:
    """The JSON of a body; None where it is not sound JSON."""
    try:
        return parse_json(body).value
    except UnreadableBody:
        return None


def parse_nothing(body: bytes) -> Any:  # noqa: ARG001
    """The JSON of a body that is known to be unreadable."""
    return


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
        form: the fields of a form-encoded body, in their order; empty where it is no form.
        time: when it happened, where it says so.
        received_at: when it was received.
        current: what the source of truth said just before the handler ran, where it has
            ``refetch=``.
        parse: turns the body into ``json``.
    """

    id: str
    type: str | None
    source: str
    tenant: str | None
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    form: tuple[tuple[str, str], ...] = field(repr=False)
    time: datetime | None
    received_at: datetime
    current: Any = field(default=None, repr=False)
    parse: Callable[[bytes], Any] = field(default=parse_plain, repr=False, compare=False)
    _json: Any = field(default=NOT_PARSED, init=False, repr=False, compare=False)

    @property
    def json(self) -> Any:
        """The body, or the item of a batch, parsed when asked for; None if it is not sound JSON."""
        if self._json is NOT_PARSED:
            object.__setattr__(self, "_json", self.parse(self.body))
        return self._json

    def __reduce__(self) -> tuple[Callable[..., Event], tuple[Any, ...]]:
        """Copy and pickle the JSON in place of ``parse``, which belongs to the source."""
        values = (
            self.id, self.type, self.source, self.tenant, self.body, self.headers, self.form,
            self.time, self.received_at, self.current,
        )  # fmt: skip
        return event_with_json, (self.json, *values)


def event_with_json(document: Any, *values: Any) -> Event:
    """An event whose JSON is known: a copy, or one that another process sent."""
    event = Event(*values)
    object.__setattr__(event, "_json", document)
    return event
