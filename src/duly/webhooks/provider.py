"""A provider as data: how it signs, where its event fields are, how it behaves."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from duly.core.errors import UsageError
from duly.core.exports import export
from duly.core.validation import kind
from duly.webhooks.schemes.scheme import Scheme
from duly.webhooks.selectors import (
    FORM,
    Selector,
    SelectorAlternatives,
    parse_alternatives,
    parse_selector,
)

if TYPE_CHECKING:
    from duly.webhooks.handshake import Handshake

Alternatives = tuple[tuple[Selector, ...], ...]
NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
# Where a sender signs the time of each attempt anew, and clocks are kept by NTP, far too much.
TOLERANCE: Final = timedelta(seconds=300)


class FieldPlan(NamedTuple):
    """Where the fields of an event are, under one scheme."""

    # Each alternative, and whether the scheme signs it.
    id: tuple[tuple[tuple[Selector, ...], bool], ...]
    type: Alternatives
    time: Alternatives
    version: Alternatives


@export
@dataclass(frozen=True, slots=True)
class Provider:
    """A sender of webhooks. Only the first two are needed; the rest makes its events readable.

    Selectors are texts such as ``body:data.id``, ``header:X-Event-Id``, ``form:Sid``; `` + `` joins
    parts, `` | `` separates alternatives, and a part with ``?`` may be missing.

    Args:
        name: lower-case letters, digits and hyphens.
        scheme: how deliveries are signed; of several, the first that is present counts.
        id: where the event id is. Nowhere: the digest of the body stands in for it.
        type: where the event type is; its parts are joined with a dot.
        time: where the time of the event is.
        version: where the number, time or text is that orders the states of one object.
        items: the list in the body whose items are events of their own; ids, types, times and
            versions are then looked for in each. ``""`` where the body itself is the list.
        item: the key within an item of that list that holds the event.
        sent_at: where the signed body says when it was sent, for schemes that sign no time.
        form_json: the field that holds the JSON when the body is a form.
        id_stable: whether retries carry the same id; None where it is not published.
        tolerance: how old a signed time may be; None for any age.
        ack_timeout: how long the provider waits for an answer, where that is known.
        retry_horizon: for how long the provider may send an event again.
        success: the status that means "taken".
        reject: the status for what is not genuine, where 403 is not understood.
        handshakes: the questions that the provider asks.
        content_type: what the deliveries call their body.
        sample: a small body, as the provider might send it.
        title: the name as people write it.
        docs: the provider's page on signatures.
        notes: what a user of this provider must know.
    """

    name: str
    scheme: Scheme[Any] | tuple[Scheme[Any], ...]
    id: str | None = None
    type: str | None = None
    time: str | None = None
    version: str | None = None
    items: str | None = None
    item: str | None = None
    sent_at: str | None = None
    form_json: str | None = None
    id_stable: bool | None = True
    tolerance: timedelta | None = TOLERANCE
    ack_timeout: timedelta | None = None
    retry_horizon: timedelta = timedelta(days=3)
    success: int = 200
    reject: int | None = None
    handshakes: tuple[Handshake, ...] = ()
    content_type: str = "application/json"
    sample: bytes = b"{}"
    title: str | None = None
    docs: str | None = None
    notes: str = ""
    schemes: tuple[Scheme[Any], ...] = field(init=False, repr=False, compare=False)
    selectors: dict[str, SelectorAlternatives] = field(init=False, repr=False, compare=False)
    # Whether the provider sends forms at all.
    forms: bool = field(init=False, repr=False, compare=False)
    # The keys on the way to the id in the body, as they are written there.
    id_keys: tuple[bytes, ...] = field(init=False, repr=False, compare=False)
    sent_at_selector: Selector | None = field(init=False, repr=False, compare=False)
    # By the identity of each scheme: where the fields are, and which ids it signs.
    plans: dict[int, FieldPlan] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        if kind(self.name) != "a str" or not NAME.fullmatch(self.name):
            raise UsageError(
                "the name of a provider must be 1 to 63 lower-case letters, digits and hyphens"
            )
        object.__setattr__(self, "schemes", checked_schemes(self.scheme))
        object.__setattr__(self, "selectors", parse_selectors(self))
        object.__setattr__(self, "id_keys", keys_to(self.selectors.get("id")))
        forms = self.form_json is not None or self.content_type == FORM
        object.__setattr__(self, "forms", forms)
        sent = None if self.sent_at is None else parse_selector(self.sent_at)
        object.__setattr__(self, "sent_at_selector", sent)
        checked_behaviour(self)

    def plan_for(self, scheme: Scheme[Any]) -> FieldPlan:
        """Where the fields are under a scheme: the ids that it covers come before the others."""
        plan = self.plans.get(id(scheme))
        if plan is None:
            found = {name: listed.alternatives for name, listed in self.selectors.items()}
            ids = [(parts, all(map(scheme.covers, parts))) for parts in found.get("id", ())]
            time, version = found.get("time", ()), found.get("version", ())
            plan = FieldPlan(
                tuple(sorted(ids, key=lambda one: not one[1])),
                found.get("type", ()),
                time,
                time if version == time else version,  # one look is enough for both
            )
            if any(scheme is one for one in self.schemes):  # it lives as long as this profile
                self.plans[id(scheme)] = plan
        return plan


def checked_schemes(scheme: object) -> tuple[Scheme[Any], ...]:
    """One scheme or several."""
    schemes = scheme if isinstance(scheme, tuple | list) else (scheme,)
    if not schemes or not all(isinstance(one, Scheme) for one in schemes):
        raise UsageError(
            f"scheme must be a scheme of duly.webhooks, such as Hmac(header='X-Signature'), not "
            f"{kind(scheme)}"
        )
    return tuple(schemes)


def parse_selectors(provider: Provider) -> dict[str, SelectorAlternatives]:
    """Parse the selectors of a profile, by field."""
    texts = {field: getattr(provider, field) for field in ("id", "type", "time", "version")}
    return {field: parse_alternatives(text) for field, text in texts.items() if text is not None}


def keys_to(selectors: SelectorAlternatives | None) -> tuple[bytes, ...]:
    """The keys of the body that lead to a field."""
    parts = [] if selectors is None else [one for parts in selectors.alternatives for one in parts]
    return tuple({json.dumps(key).encode(): None for part in parts for key in part.path})


def checked_behaviour(provider: Provider) -> None:
    """Refuse durations and statuses that mean nothing."""
    for name in ("tolerance", "ack_timeout", "retry_horizon"):
        value = getattr(provider, name)
        if value is None and name != "retry_horizon":
            continue
        if not isinstance(value, timedelta) or value < timedelta(0):
            raise UsageError(f"{name} must be a datetime.timedelta, not {kind(value)}")
    for name, value in (("success", provider.success), ("reject", provider.reject)):
        if value is not None and value not in range(200, 600):
            raise UsageError(f"{name} must be a status of HTTP, such as 200")
    if not isinstance(provider.sample, bytes):
        raise UsageError(f"sample must be the bytes of a body, not {kind(provider.sample)}")
