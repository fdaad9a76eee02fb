"""An event to send: the sample of a profile made fresh, or a file, with the id and type asked for.

`duly.sign` puts an id or a type into a header, where the provider has one for it. What travels in
the body is written there first, at the place where the profile will look for it.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.core.errors import Parameter, UsageError
from duly.testing.sender.documents import Document
from duly.testing.sender.renewal import RenewedBody, renew_times
from duly.testing.sender.samples import make_sample
from duly.webhooks.examples import TYPES
from duly.webhooks.sign import header_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duly.testing.sender.documents import Plain
    from duly.webhooks.provider import Provider
    from duly.webhooks.selectors import Selector

# The first second of 2026, which every sample speaks of, in the two ways that they write it.
SAMPLE_SECONDS, SAMPLE_DAY = b"1767225600", b"2026-01-01T00:00:00"


@dataclass(frozen=True, slots=True)
class EventToSign:
    """What is to be signed: a body, and the id and the type where they travel in headers."""

    body: bytes
    id: str | None = None
    type: str | None = None
    # What was moved in a file, for a person to know.
    renewed: RenewedBody | None = None


@dataclass(frozen=True, slots=True)
class EventRequest:
    """What the command line says of the event; everything may be left open."""

    body: bytes | None = None
    id: str | None = None
    type: str | None = None
    keep_time: bool = False

    def __post_init__(self) -> None:
        if self.id == "" or self.type == "":
            raise UsageError(
                Parameter("id"), " and ", Parameter("type"), " must not be empty: leave them out"
            )


def event_of(provider: Provider, request: EventRequest, moment: datetime) -> EventToSign:
    """The event that was asked for, as of that moment.

    A file says itself which event it is, and is sent as it stands but for its own time, which
    becomes a fresh one unless it is to be kept; the sample becomes a fresh event unless it is given
    an id. Times are those of the hour's beginning, so that the same event sent again is the same
    byte for byte, as a retry would be.
    """
    hour = moment.replace(minute=0, second=0, microsecond=0)
    if request.body is None:
        return sample_event(provider, request, hour)
    keep = RenewedBody(request.body)
    renewed = keep if request.keep_time else renew_times(provider, request.body, hour)
    document = document_sent_in(provider, renewed.body, hour)
    header_type = None if request.type is None else put_type(document, provider, request.type)
    if header_of(provider.selectors.get("id")) is None:
        put_id(document, provider, request.id, fresh=False)
        return EventToSign(document.body, None, header_type, renewed)
    put_header_id(document, provider, request.id, fresh=False)
    return EventToSign(document.body, request.id, header_type, renewed)


def sample_event(provider: Provider, request: EventRequest, hour: datetime) -> EventToSign:
    """The sample of a provider, as an event of its own."""
    id = request.id or str(uuid.uuid4())
    made = make_sample(provider, request.type, id, hour)
    document = document_sent_in(provider, made or sample_at(provider, hour), hour)
    header_type = TYPES.get(provider.name)
    if request.type is not None:
        header_type = put_type(document, provider, request.type)
    if header_of(provider.selectors.get("id")) is None:
        put_id(document, provider, request.id, fresh=True)
        return EventToSign(document.body, None, header_type)
    if made is None:
        put_header_id(document, provider, id, fresh=True)
    return EventToSign(document.body, id, header_type)


def document_sent_in(provider: Provider, body: bytes, hour: datetime) -> Document:
    """A body that says it was sent in this hour, where it says so itself."""
    document = Document(provider, body)
    selector = provider.sent_at_selector
    if selector is not None and document.value(selector) is not None:
        document.set_value(selector, int(hour.timestamp()) * 1000)
    return document


def sample_at(provider: Provider, moment: datetime) -> bytes:
    """The profile's sample with its times moved to this one."""
    seconds = str(int(moment.timestamp())).encode()
    day = f"{moment:%Y-%m-%dT%H:%M:%S}".encode()
    return provider.sample.replace(SAMPLE_SECONDS, seconds).replace(SAMPLE_DAY, day)


def put_id(document: Document, provider: Provider, id: str | None, *, fresh: bool) -> None:
    """Write the id where it is in the body: the one asked for, or a fresh one."""
    places = usual_places(document, provider, "id")
    if not places or (id is None and not fresh):
        return
    place = own_part(places, provider)
    document.set_value(
        place, similar_value(document.value(place), str(uuid.uuid4())) if id is None else id
    )


def put_header_id(document: Document, provider: Provider, id: str | None, *, fresh: bool) -> None:
    """Let the body of an event whose id is in a header follow that id.

    Such ids are mostly not signed: a receiver takes the same body under a fresh one for a replay.
    So the sample gets an object of its own, always the same for one id. In a file only an id that
    stands in the body as well is changed, since it could count before the header.
    """
    places = complete_places(document, provider, "id")
    if fresh and id is not None:
        place = own_part(places, provider) if places else document.first_named("id")
        if place is not None:
            document.set_value(place, similar_value(document.value(place), id))
    elif id is not None and places:
        document.set_value(own_part(places, provider), id)


def put_type(document: Document, provider: Provider, type: str) -> str | None:
    """Write the type into the body; returned is the part of it that belongs in a header."""
    header = header_of(provider.selectors.get("type"))
    spot = provider.selectors.get("type")
    if spot is None:
        raise UsageError(f"{provider.title} names no types: leave ", Parameter("type"), " out")
    places = usual_places(document, provider, "type") if header is None else spot.alternatives[0]
    parts = type.split(".", len(places) - 1)
    values = dict(zip(places, parts, strict=False))
    for place in places:
        if place == header:
            continue
        if place in values:
            document.set_value(place, values[place])
        elif place.optional:
            document.remove_value(place)
    return None if header is None else parts[0]


def usual_places(document: Document, provider: Provider, fact: str) -> tuple[Selector, ...]:
    """Where a fact is in this body, or where it would be."""
    spot = provider.selectors.get(fact)
    possible = [] if spot is None else [one for one in spot.alternatives if document.can_hold(one)]
    return complete_places(document, provider, fact) or (possible[0] if possible else ())


def complete_places(document: Document, provider: Provider, fact: str) -> tuple[Selector, ...]:
    """Where a fact is in this body."""
    spot = provider.selectors.get(fact)
    alternatives: Sequence[tuple[Selector, ...]] = () if spot is None else spot.alternatives
    found = (
        places
        for places in alternatives
        if document.can_hold(places) and document.complete_values(places) is not None
    )
    return next(found, ())


def own_part(places: tuple[Selector, ...], provider: Provider) -> Selector:
    """The part of an id that is neither the type nor the time of the event."""
    spots = [provider.selectors.get("type"), provider.selectors.get("time")]
    other = {one.name for spot in spots if spot for parts in spot.alternatives for one in parts}
    return next((place for place in places if place.name not in other), places[0])


def similar_value(sample: Plain | None, seed: str) -> Plain:
    """A value that looks like the sample's, and is always the same for one seed."""
    digest = hashlib.sha256(seed.encode()).hexdigest()
    number = 10**14 + int(digest, 16) % (9 * 10**14)  # what every reader of JSON can hold
    if isinstance(sample, int | float):
        return number
    stem = (sample or "").rstrip("0123456789")
    return f"{stem}{digest[:24]}" if stem else str(number)
