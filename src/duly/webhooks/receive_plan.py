"""A plan per source: what receiving needs of a genuine delivery, found in one step.

A plan is made when a source is registered. It returns the fields of a delivery that
`verify_delivery` would accept as one ordinary event with these very fields, and None for every
other: then `verify_delivery` gives the verdict. So a plan refuses nothing and raises nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from duly.core.clock import EPOCH, MICROSECOND
from duly.webhooks.event_fields import (
    SECONDS,
    STAND_IN,
    digest_key,
    first_of,
    parse_iso_time,
    parse_time,
)
from duly.webhooks.partial_json import NotPlain, compile_reader
from duly.webhooks.quick_check import allowed_ages, compile_check
from duly.webhooks.selectors import join_values, parse_selector, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duly.webhooks.handshake import Handshake
    from duly.webhooks.partial_json import Path, Value
    from duly.webhooks.provider import Alternatives
    from duly.webhooks.quick_check import QuickCheck
    from duly.webhooks.schemes.scheme import Match
    from duly.webhooks.selectors import Selector
    from duly.webhooks.source import Source

    # A part of a field: a header's name, or the number of a path in the body; and whether it may
    # be missing.
    Place: TypeAlias = tuple[bytes | None, int, bool]
    Alternative: TypeAlias = tuple[Place, ...]
    Headers: TypeAlias = Mapping[bytes, bytes]
    # The value of a field, or the list of its parts.
    Pick: TypeAlias = Callable[[Headers, Sequence[Value]], Any]

# The calendar, in microseconds since 1970: beyond it a row has no time.
EARLIEST: Final = (datetime.min.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
LATEST: Final = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
POST: Final = "POST"
# The number of a place that is not in the body.
NOWHERE: Final = -1


class PlannedFields(NamedTuple):
    """What receiving needs of one genuine delivery.

    ``time`` is in microseconds since 1970. ``signed`` says whether the id can be believed,
    ``time_signed`` whether the time can, and ``sent`` when this attempt was signed, in seconds
    since 1970, where the scheme says so.
    """

    id: str
    signed: bool
    replay_key: str | None
    type: str | None
    time: int | None
    secret: str
    sent: float | None
    time_signed: bool


# For a POST to a source: its headers by lower-case name, each sent once; its body; the time.
ReceivePlan: TypeAlias = Callable[[Mapping[bytes, bytes], bytes, float], PlannedFields | None]


def compile_plan(source: Source) -> ReceivePlan | None:
    """The plan of a source; None where every delivery needs the whole verification."""
    if not has_plain_events(source):
        return None
    plans: list[tuple[tuple[bytes, ...], ReceivePlan]] = []
    for scheme, keys in source.schemes:  # the first that is present counts
        check = compile_check(source, scheme, keys)
        plan = None if check is None else plan_of(source, check)
        if check is None or plan is None:
            break
        plans.append((encoded_names(check.signature), plan))
    if len(plans) < 2:
        return plans[0][1] if plans else None
    return choose_plan(tuple(plans))


def has_plain_events(source: Source) -> bool:
    """Whether a delivery of this source can be one event and nothing else."""
    provider = source.provider
    return (
        source.missing_id == "body"
        and source.parse == "accept"
        and provider.items is None
        and all(handshake.signed for handshake in provider.handshakes)
    )


def encoded_names(names: Sequence[str]) -> tuple[bytes, ...]:
    """The names of headers as they arrive."""
    return tuple(name.encode() for name in names)


def choose_plan(plans: tuple[tuple[tuple[bytes, ...], ReceivePlan], ...]) -> ReceivePlan:
    """The plan of a source with several schemes: that of the first whose signature is there."""

    def plan(headers: Headers, body: bytes, now: float) -> PlannedFields | None:
        for names, chosen in plans:
            for name in names:
                if name in headers:
                    return chosen(headers, body, now)
        return None

    return plan


class Elsewhere(Exception):
    """A field is in a place that plans do not read."""


class Places:
    """Where the fields of a profile are, for one scheme of it."""

    def __init__(self, source: Source, quick: QuickCheck) -> None:
        provider = source.provider
        fields = provider.plan_for(quick.scheme)
        self.paths: list[Path] = []
        self.ids = [
            (alternative, signed)
            for parts, signed in fields.id
            if (alternative := self.alternative(parts)) is not None
        ]
        self.types = tuple(self.alternatives(fields.type))
        self.times = tuple(self.alternatives(fields.time))
        self.questions = tuple(
            self.question(one) for one in provider.handshakes if one.method == POST
        )
        sent = provider.sent_at_selector
        self.sent_at = None if sent is None else self.place(sent)[1]
        if self.sent_at == NOWHERE:
            raise Elsewhere

    def place(self, part: Selector) -> Place:
        """One part; a form's field is never there, for a form has no plan."""
        if part.kind == "query":
            raise Elsewhere
        if part.kind == "header":
            return part.name.encode(), NOWHERE, part.optional
        if part.kind == "form":
            return None, NOWHERE, part.optional
        if part.path not in self.paths:
            self.paths.append(part.path)
        return None, self.paths.index(part.path), part.optional

    def alternative(self, parts: Sequence[Selector]) -> Alternative | None:
        """The parts of one alternative; None where it can never be complete."""
        places = tuple(self.place(part) for part in parts)
        missing = any(place[:2] == (None, NOWHERE) and not place[2] for place in places)
        return None if missing else places

    def alternatives(self, all_parts: Alternatives) -> Iterator[Alternative]:
        """The alternatives that can be complete."""
        for parts in all_parts:
            found = self.alternative(parts)
            if found is not None:
                yield found

    def question(self, handshake: Handshake) -> tuple[int, object]:
        """A place in the body and the value that a question has there, so that no event has it."""
        for text, value in handshake.when.items():
            selector = parse_selector(text)
            if selector.kind == "body":
                return self.place(selector)[1], value
        raise Elsewhere


def plan_of(source: Source, quick: QuickCheck) -> ReceivePlan | None:
    """The plan of one scheme; None where a field is somewhere else than in headers and JSON."""
    try:
        places = Places(source, quick)
    except Elsewhere:
        return None
    read = values_reader(source, places)
    if read is None:
        return None
    match, identify = matcher(quick), identifier(places)
    pick_type, pick_time = pick_first(places.types), pick_first(places.times)
    sent_at, time_signed = places.sent_at, is_covered(source, quick)
    ahead, tolerance = allowed_ages(source)

    def plan(headers: Headers, body: bytes, now: float) -> PlannedFields | None:
        matched = match(headers, body, now)
        if matched is None:
            return None
        secret, sent = matched
        try:
            values = read(headers, body)
            if sent_at is not None and sent is None:
                sent = seconds_of(values[sent_at])
                if sent is not None and not -ahead <= now - sent <= tolerance:
                    return None
            found, signed = identify(headers, values)
            return PlannedFields(
                found or digest_key(body),
                signed,
                None if signed else digest_key(body),
                type_of(pick_type(headers, values)),
                microseconds_of(pick_time(headers, values)),
                secret,
                sent,
                time_signed,
            )
        except NotPlain:
            return None

    return plan


def matcher(quick: QuickCheck) -> Callable[[Headers, bytes, float], Match | None]:
    """What finds the secret that signed a delivery, and when, by its headers."""
    (name, *others), check = encoded_names(quick.signature), quick.check
    if quick.stamp is None and not others:

        def match_one(headers: Headers, body: bytes, now: float) -> Match | None:
            header = headers.get(name)
            return None if header is None else check(header, b"", b"", body, now)

        return match_one
    # Where there is no such header, the signature stands in for what is not looked at.
    stamp_name = name if quick.stamp is None else quick.stamp.encode()
    id_name = stamp_name if quick.identifier is None else quick.identifier.encode()

    def match(headers: Headers, body: bytes, now: float) -> Match | None:
        get = headers.get
        header, stamp, identity = get(name), get(stamp_name), get(id_name)
        if header is None or stamp is None or identity is None:
            return None
        if others and any(other in headers for other in others):
            return None
        return check(header, stamp, identity, body, now)

    return match


def values_reader(
    source: Source, places: Places
) -> Callable[[Headers, bytes], Sequence[Value]] | None:
    """What reads all places of the body, or `NotPlain`; nothing where headers say it all."""
    provider, questions = source.provider, places.questions
    read = compile_reader(places.paths, provider, source.limits)
    if read is None:
        return None
    always = provider.forms or bool(questions) or places.sent_at is not None
    spares_body = None if always else header_leads(places)
    blank: tuple[Value, ...] = (None,) * len(places.paths)

    def read_values(headers: Headers, body: bytes) -> Sequence[Value]:
        if spares_body is not None and spares_body(headers):
            return blank
        if not body.startswith(b"{"):
            raise NotPlain
        values = read(body)
        for number, answer in questions:
            if values[number] is not None and answer in (None, values[number]):
                raise NotPlain
        return values

    return read_values


def identifier(places: Places) -> Callable[[Headers, Sequence[Value]], tuple[str, bool]]:
    """What finds the id and whether it is signed; an empty one where the body stands in for it."""
    ids = tuple((pick_parts(one), len(one) > 1, signed) for one, signed in places.ids)

    def identify(headers: Headers, values: Sequence[Value]) -> tuple[str, bool]:
        for pick, many, signed in ids:
            found = pick(headers, values)
            if found is None or found is True or found is False:
                continue
            if found.__class__ is not str or found.startswith("["):
                found = join_values(found if many else [found])
            if not is_plain_id(found):
                raise NotPlain
            return found, signed
        return "", True

    return identify


def type_of(found: Any) -> str | None:
    """The type of an event, from one value or from the parts of one."""
    if found is None or found.__class__ is str:
        kind: str | None = found
        return kind
    parts = found if found.__class__ is list else (found,)
    return ".".join([text_of(part) for part in parts if part is not None])


def seconds_of(value: Value) -> float | None:
    """When a delivery says that it was sent."""
    moment = parse_time(value)
    return None if moment is None else moment.timestamp()


def is_covered(source: Source, quick: QuickCheck) -> bool:
    """Whether the time of an event can be believed under a scheme."""
    times = source.provider.plan_for(quick.scheme).time
    return all(quick.scheme.covers(part) for parts in times for part in parts)


def is_plain_id(text: str) -> bool:
    """Whether an id is text that every store takes, and none of those that stand for a body."""
    plain = 0 < len(text) <= 4096 and text.isascii() and text.isprintable()
    return plain and not (text.startswith("body_") and STAND_IN.fullmatch(text))


def microseconds_of(value: Any) -> int | None:
    """The time of an event, from one value or from the parts of one."""
    if value.__class__ is int and 0 <= value < SECONDS:
        seconds: int = value
        return seconds * 1_000_000
    if value is None:
        return None
    if value.__class__ is list:
        value = value[0] or first_of(value)
    # What ends in a Z is no number: it need not be tried as one.
    iso = value.__class__ is str and value.endswith("Z")
    moment = parse_iso_time(value) if iso else parse_time(value)
    if moment is None:
        return None
    found = (moment - EPOCH) // MICROSECOND
    if not EARLIEST <= found <= LATEST:
        raise NotPlain
    return found


def pick_parts(alternative: Alternative) -> Pick:
    """What finds one alternative: its value, the list of several, or None."""
    if len(alternative) == 1:
        return pick_part(alternative[0])
    picks = tuple((pick_part(place), place[2]) for place in alternative)

    def pick(headers: Headers, values: Sequence[Value]) -> list[Value] | None:
        found: list[Value] = []
        for pick_one, optional in picks:
            value = pick_one(headers, values)
            if value is None and not optional:
                return None
            found.append(value)
        return found

    return pick


def pick_part(place: Place) -> Pick:
    """What finds one part."""
    name, number, _ = place
    if name is not None:
        header = name
        return lambda headers, _: headers.get(header, b"").decode("latin-1") or None
    if number == NOWHERE:
        return lambda _, __: None
    return lambda _, values: values[number]


def pick_first(alternatives: Sequence[Alternative]) -> Pick:
    """What finds the first complete alternative."""
    picks = tuple(pick_parts(one) for one in alternatives)
    if len(picks) == 1:
        return picks[0]

    def pick(headers: Headers, values: Sequence[Value]) -> Any:
        for one in picks:
            found = one(headers, values)
            if found is not None:
                return found
        return None

    return pick


def header_leads(places: Places) -> Callable[[Headers], bool] | None:
    """What tells that headers alone answer for every field; None where they never do."""
    leads: list[tuple[tuple[bytes, ...], ...]] = []
    for alternatives in ([one for one, _ in places.ids], places.types, places.times):
        if not alternatives:
            continue
        lead: list[tuple[bytes, ...]] = []
        for parts in alternatives:
            if any(name is None for name, _, _ in parts):
                break
            lead.append(tuple(name for name, _, optional in parts if name and not optional))
        if not lead:
            return None
        leads.append(tuple(lead))

    def answer(headers: Headers) -> bool:
        return all(any(all(headers.get(n) for n in one) for one in lead) for lead in leads)

    return answer
