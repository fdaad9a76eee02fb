"""A body in which single values can be read and changed: JSON, or the fields of a form."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from duly.core.errors import Parameter, UsageError
from duly.webhooks.delivery import Delivery
from duly.webhooks.event_fields import batch_items
from duly.webhooks.selectors import DeliveryReader, Selector
from duly.webhooks.strict_json import DEFAULT_LIMITS, ParsedBody

if TYPE_CHECKING:
    from duly.webhooks.provider import Provider

Plain = str | int | float
LEAVE_OUT = (
    *(": write the id and the type into ", Parameter("payload"), ", and leave ", Parameter("id")),
    *(" and ", Parameter("type"), " out"),
)


class Document:
    """A body of one provider, read as its receiver will read it. Unchanged, it keeps its bytes."""

    def __init__(self, provider: Provider, body: bytes) -> None:
        self._provider = provider
        self._load(body)

    def _load(self, body: bytes) -> None:
        self.body = body
        parsed = ParsedBody(body, DEFAULT_LIMITS, self._provider)
        self._reading = DeliveryReader(Delivery({}, body, None, "POST", 0.0), parsed)
        batch = self._provider.items is not None
        self._items = batch_items(self._reading, self._provider) if batch else []

    @property
    def _event(self) -> Any:
        """Where the places of the body begin: at the one item of a batch, else at its root."""
        return self._items[0] if len(self._items) == 1 else None

    def complete_values(self, places: tuple[Selector, ...]) -> list[Any] | None:
        """The values of these places, None where one that must be there is missing."""
        return self._reading.select((places,), self._event)

    def value(self, place: Selector) -> Plain | None:
        """The value of one place."""
        return self._reading.value(place, self._event)

    def can_hold(self, places: tuple[Selector, ...]) -> bool:
        """Whether places of these kinds can be in this body: some forms hold JSON in a field."""
        kind = "body" if self._reading.body.holds_json else "form"
        return all(place.kind == kind for place in places)

    def set_value(self, place: Selector, value: Plain) -> None:
        """Set a value, of the kind that is there already where it can be one."""
        present = self.value(place)
        if isinstance(present, int) and str(value).isdecimal():
            value = int(value)
        if present == value:
            return
        if place.kind == "form":
            fields = dict(self._reading.body.form) | {place.name: str(value)}
            self._load(urlencode(list(fields.items())).encode())
        else:
            self._write(place.path, value)

    def remove_value(self, place: Selector) -> None:
        """Take a value away."""
        if self.value(place) is not None:
            self._write(place.path, None)

    def _write(self, path: tuple[str, ...], value: Plain | None) -> None:
        *way, last = path
        node = self._editable_event()
        for key in way:
            node = node.setdefault(key, {})
            if not isinstance(node, dict):
                raise UsageError(f"the body has no room for {'.'.join(path)}", *LEAVE_OUT)
        if value is None:
            del node[last]
        else:
            node[last] = value
        ending = self.body[len(self.body.rstrip()) :]  # some senders sign a line break behind it
        # What was changed is the reading's own copy, which is read again from these bytes.
        written = json.dumps(self._reading.body.document.value, separators=(",", ":"))
        self._load(written.encode() + ending)

    def _editable_event(self) -> dict[str, Any]:
        """The one event of this body."""
        body = self._reading.body
        node = body.document.value if self._event is None else self._event
        if body.form:
            raise UsageError("the body is a form with JSON in it", *LEAVE_OUT)
        if body.unreadable is not None:
            raise UsageError(f"the body cannot be changed, since {body.unreadable}", *LEAVE_OUT)
        if not isinstance(node, dict) or len(self._items) > 1:
            raise UsageError("the body must hold one event, not none and not several", *LEAVE_OUT)
        return node

    def first_named(self, name: str) -> Selector | None:
        """The first place under this name, however deep in the body."""
        path = path_to(name, self._reading.body.document.value)
        return None if path is None else Selector("body", ".".join(path), path)


def path_to(name: str, node: Any) -> tuple[str, ...] | None:
    """The keys down to the first plain value under this name."""
    if not isinstance(node, dict):
        return None
    if isinstance(node.get(name), str | int):
        return (name,)
    found = ((key, path_to(name, below)) for key, below in node.items())
    return next(((key, *path) for key, path in found if path is not None), None)
