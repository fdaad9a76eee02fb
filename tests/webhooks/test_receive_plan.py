"""A plan is the whole verification in one step: it finds the same, or nothing.

`verify_delivery` judges every plan: over all providers that have one, over genuine deliveries and
what becomes of them, and over every corner that the reader behind the plan is known to skip.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import duly
from duly.core.clock import to_microseconds
from duly.core.errors import Rejected
from duly.webhooks import (
    Hmac,
    Limits,
    NamedFields,
    Provider,
    Secret,
    Source,
    partial_json,
    provider_named,
    provider_names,
)
from duly.webhooks.delivery import Delivery, fields_of
from duly.webhooks.receive_plan import PlannedFields, compile_plan
from duly.webhooks.verify import verify_delivery
from tests.webhooks.arena import CASES, NOW, Arrival, Case, signable
from tests.webhooks.hostile import BODIES, VALUES, planted, raw, text_of
from tests.webhooks.keyring import keys_of
from tests.webhooks.strategies import bodies_to_sign, edited, paths_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


PLANNED = (
    "github", "gitlab", "linear", "paddle", "shopify", "slack", "standard-webhooks", "stripe",
    "svix", "zoom",
)  # fmt: skip
SETTINGS = settings(
    max_examples=400 if os.environ.get("DULY_LONG") == "1" else 12,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
SELECTORS = "body:id | body:ids.here + body:more? | header:X-Id | form:id"
OWN = {
    "own-fields": Provider(
        "own-fields",
        Hmac(
            header="X-Signature", fields=NamedFields(signature="s"), digest="sha512",
            encoding="base64", signed="100%{timestamp}%s{body}!", timestamp="X-Time", unit="us",
        ),
        id=SELECTORS, type="body:type + header:X-Type?", time="header:X-When | body:time",
        form_json="payload",
    ),
    "own-body": Provider("own-body", Hmac(header="X-Signature"), tolerance=None),
    "own-headers": Provider(
        "own-headers", Hmac(header="X-Signature", prefix="SHA256="),
        id="header:X-Id", type="header:X-Type + header:X-Sub?", time="header:X-When",
        sent_at="body:time",
    ),
    "own-token": Provider(
        "own-token", duly.webhooks.SharedToken(place="header:X-Token"),
        id=SELECTORS, type="body:type", time="body:time",
    ),
}  # fmt: skip
HEADERS = {"X-Id": "x_1", "X-Type": "paid", "X-When": "2026-01-01T00:00:00+01:00"}
FIELDS = b'{"id":"e_1","ids":{"here":7},"more":1.5,"type":"paid","time":1767225600.25}'


def planned_cases() -> Iterator[Case]:
    for case in CASES.values():
        if case.provider.name in PLANNED:
            yield case
    for name, provider in OWN.items():
        scheme = provider.schemes[0]
        yield Case(name, scheme, provider, keys_of(scheme), HEADERS, FIELDS)


ALL = {case.name: case for case in planned_cases()}
# What the sender has something better for, beside it: the whole verification has to choose.
WITHOUT_PLAN = ("github-2", "standard-webhooks-v1a", "svix-v1a")
SERVED = [name for name in ALL if name not in WITHOUT_PLAN]
every_case = pytest.mark.parametrize("name", ALL)
served_case = pytest.mark.parametrize("name", SERVED)


@pytest.fixture(params=["msgspec", "strict"], scope="module", autouse=True)
def reader(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each plan is made with msgspec and without."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "strict":
            patch.setattr(partial_json, "msgspec", None)
        yield


@dataclass(frozen=True)
class Outcome:
    """What a plan and its judge say of one delivery."""

    planned: PlannedFields | None
    judged: PlannedFields | None


def judged(source: Source, headers: Mapping[bytes, bytes], body: bytes, now: float) -> Any:
    """What the whole verification finds, where that is one ordinary event."""
    try:
        found = verify_delivery(source, Delivery(fields_of(headers), body, None, "POST", now))
    except Rejected:
        return None
    if found.handshake is not None or len(found.events) != 1:
        return None
    one, covers = found.events[0], found.scheme.covers
    times = source.provider.plan_for(found.scheme).time
    try:
        time = None if one.time is None else to_microseconds(one.time.astimezone(UTC))
    except OverflowError:
        time = None
    return PlannedFields(
        id=one.id,
        signed=one.id_kind != "unsigned",
        replay_key=one.replay_key,
        type=one.type,
        time=time,
        secret=found.secret,
        sent=found.sent,
        time_signed=all(covers(part) for parts in times for part in parts),
    )


def as_sent(arrival: Arrival) -> dict[bytes, bytes] | None:
    """The headers as a server has them; None where one is there twice, or is no header at all."""
    pairs = arrival.headers.items() if isinstance(arrival.headers, dict) else arrival.headers
    found: dict[bytes, bytes] = {}
    for name, value in pairs:
        try:
            key = (name if isinstance(name, bytes) else name.encode("latin-1")).lower()
            text = value if isinstance(value, bytes) else value.encode("latin-1")
        except UnicodeEncodeError:
            return None
        if key in found:
            return None
        found[key] = text
    return found


def both(source: Source, arrival: Arrival, now: float = NOW) -> Outcome:
    """The plan beside its judge; they agree, or the plan has nothing to say."""
    headers, plan = as_sent(arrival), compile_plan(source)
    if headers is None:  # such a delivery is never shown to a plan
        return Outcome(None, None)
    before = dict(headers)
    planned = None if plan is None else plan(headers, arrival.body, now)
    told = judged(source, headers, arrival.body, now)
    assert planned is None or planned == told, (arrival, now)
    assert planned is None or [*map(type, planned)] == [*map(type, told)]
    assert headers == before
    return Outcome(planned, told)


def accepted(name: str, body: bytes, headers: Mapping[str, str] | None = None) -> Outcome:
    """What is said of a genuine delivery of this body."""
    arrival = signable(ALL[name], body)
    assert arrival is not None
    more = {**arrival.headers, **(headers or {})}
    return both(ALL[name].source, Arrival(more, arrival.body))


@served_case
def test_a_genuine_delivery_of_every_provider_needs_no_more_than_its_plan(name: str) -> None:
    found = both(ALL[name].source, ALL[name].signed())
    assert found.planned is not None


def test_every_provider_that_can_have_a_plan_has_one() -> None:
    found = [
        name
        for name in provider_names()
        if compile_plan(Source(name, keys_of(provider_named(name).schemes[0]).verifier)) is not None
    ]
    assert tuple(found) == PLANNED


@every_case
@SETTINGS
@given(data=st.data())
def test_a_plan_finds_what_the_whole_verification_finds(name: str, data: st.DataObject) -> None:
    case = ALL[name]
    arrival = signable(case, data.draw(bodies_to_sign(case)))
    assume(arrival is not None)
    assert arrival is not None
    more = data.draw(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(ODD), max_size=3))
    both(case.source, Arrival({**arrival.headers, **more}, arrival.body))


NAMES = (
    "x-id", "x-when", "x-type", "x-sub", "x-github-event", "x-github-delivery",
    "x-shopify-topic", "x-shopify-webhook-id", "shopify-webhook-id", "x-shopify-event-id",
    "x-shopify-triggered-at", "x-gitlab-event", "idempotency-key", "linear-delivery",
    "shopify-hmac-sha256", "x-hub-signature", "webhook-signature", "x-gitlab-token",
)  # fmt: skip
ODD = (
    "", " ", "paid", "[", '["a"]', "body_" + "0" * 64, "\xff", "\0", "x" * 5000, "1767225600",
    "1767225600.5", "1e999", "nan", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00",
    "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999-23:59", "20260101T000000Z", "0Z",
    "2026-01-01T00:00:00.123456789Z",
)  # fmt: skip


@pytest.fixture(scope="module")
def near(reader: None) -> dict[str, Arrival]:
    """The genuine delivery that each near miss begins with."""
    return {name: ALL[name].signed() for name in ALL}


@every_case
@SETTINGS
@given(data=st.data())
def test_no_change_of_a_genuine_delivery_makes_a_plan_accept_more(
    name: str, near: dict[str, Arrival], data: st.DataObject
) -> None:
    original = near[name]
    pairs = [(one.lower().encode(), text.encode()) for one, text in original.headers.items()]
    body = original.body
    for _ in range(data.draw(st.integers(1, 2))):
        which = data.draw(st.integers(0, len(pairs)))
        if which == len(pairs):
            body = data.draw(edited(body))
        else:
            pairs[which] = (pairs[which][0], data.draw(edited(pairs[which][1])))
    both(ALL[name].source, Arrival(pairs, body))


@every_case
def test_a_hostile_body_is_read_as_the_whole_verification_reads_it(name: str) -> None:
    case = ALL[name]
    for body in (*BODIES, *map(raw, VALUES)):
        arrival = signable(case, body)
        if arrival is not None:
            both(case.source, arrival)


@every_case
def test_every_value_at_every_place_is_read_as_the_whole_verification_reads_it(name: str) -> None:
    case = ALL[name]
    for path in paths_of(case):
        for value in VALUES:
            tree = planted({one: '"a"' for one in paths_of(case)} | {path: value})
            arrival = signable(case, raw(text_of(tree)))
            if arrival is not None:
                both(case.source, arrival)


# What msgspec takes without a word where it skips, or takes in another way.
SKIPPED = {
    "an integer of 5,000 digits": b"9" * 5000,
    "an integer of 401 digits": b"1" * 401,
    "a number that overflows": b"1e999",
    "a negative one": b"-1E+400",
    "an overflow without an exponent": b"9" * 309 + b".0",
    "an overflow by few more digits": b"9" * 299 + b"e10",
    "text that is no UTF-8": b'"\xff"',
    "half a surrogate pair in UTF-8": b'"\xed\xa0\x80"',
    "half a surrogate pair": b'"\\ud800"',
    "the other half": b'"\\udc00"',
    "a key of half a pair": b'{"\\ud800":1}',
    "150 levels": b"[" * 150 + b"]" * 150,
    "150 levels of objects": b'{"a":' * 150 + b"1" + b"}" * 150,
    "NaN": b"NaN",
    "infinity": b"-Infinity",
    "a control character": b'"\x01"',
    "a line break in text": b'"a\nb"',
    "an unknown escape": b'"\\x41"',
    "a leading zero": b"01",
    "a trailing comma": b"[1,]",
}


def with_skipped(case: Case, value: bytes) -> bytes:
    """A case's own body with one more member."""
    return case.body.rstrip()[:-1] + b',"skipped":{"deep":[' + value + b"]}}"


@pytest.mark.parametrize("what", SKIPPED)
def test_what_msgspec_skips_is_not_skipped(what: str) -> None:
    for name, case in ALL.items():
        found = accepted(name, with_skipped(case, SKIPPED[what]))
        assert found.planned is None or spares_body(name)


def reads_partly() -> bool:
    """Whether plans are made with msgspec here."""
    return vars(partial_json)["msgspec"] is not None


def spares_body(name: str) -> bool:
    """Whether the body of a delivery is never looked at."""
    return name == "own-body"


def twice(body: bytes, path: tuple[str, ...], again: str) -> bytes:
    """A body that names one of its keys twice."""
    key, told = json.dumps(path[0]), json.loads(body)
    if len(path) > 1:
        inner = twice(json.dumps(told[path[0]]).encode(), path[1:], again).decode()
        rest = {name: value for name, value in told.items() if name != path[0]}
        return f"{json.dumps(rest)[:-1]}, {key}: {inner}}}".encode()
    return body.rstrip()[:-1] + f',{again}:"other"}}'.encode()


def places_of(case: Case) -> list[tuple[str, ...]]:
    """The places of a case's own body that a plan reads: all but versions."""
    read = repr(replace(case.provider, version=None))
    found = [path for path in paths_of(case) if f"body:{'.'.join(path)}" in read]
    return [path for path in found if holds(json.loads(case.body), path)]


def holds(node: object, path: tuple[str, ...]) -> bool:
    for key in path:
        if not isinstance(node, dict) or key not in node:
            return False
        node = node[key]
    return True


@served_case
@pytest.mark.parametrize("indent", [None, 2])
def test_two_equal_keys_have_no_plan_however_they_are_written(
    name: str, indent: int | None
) -> None:
    case = ALL[name]
    styled = json.dumps(json.loads(case.body), indent=indent).encode()
    for body in (case.body, styled):
        for path in places_of(case):
            plain, first = json.dumps(path[-1]), path[-1][0]
            for again in (plain, plain.replace(first, f"\\u{ord(first):04x}", 1)):
                found = accepted(name, twice(body, path, again))
                # The strict reader knows them from a key twice where that does not matter.
                assert found.planned is None or not reads_partly()


@served_case
def test_a_byte_order_mark_has_no_plan(name: str) -> None:
    found = accepted(name, b"\xef\xbb\xbf" + ALL[name].body)
    assert found.planned is None or spares_body(name)


LINE = {
    "id": "il_3e4005fLkd2b3c4d5e",
    "type": "line_item",
    "amount": 2000,
    "description": "Café crème, cup 4",
    "period": {"start": 1767225600, "end": 1769904000, "created": None},
    "metadata": {"order": "order-4", "weight": 0.25},
}
# What ordinary senders write.
ORDINARY = {
    "ids in hex": json.dumps(
        {"sha": ["3e4005f0b1e9990", "6dcb09b5b57875f334f61aebed695e2e4193db5e"], "one": "1e999"}
    ),
    "a version of four": '{"u":"550e8400-e29b-41d4-a716-446655440000"}',
    "fractions": '{"a":[0.25,-1.5e-7,1E+16,2e10,5e-05,0.1,1e99]}',
    "large integers": '{"a":[820982911946154508,18446744073709551616,-9223372036854775809]}',
    "escapes": '{"a":"\\n\\t\\\\ \\"quoted\\" \\/path\\/ \\u00e9 \\ud83d\\ude00"}',
    "an escaped key": '{"caf\\u00e9":1,"a\\/b":2}',
    "text beyond ASCII": '{"a":"Café ☕ 😀","naïve":"é"}',
    "a key of text beyond ASCII": '{"é":1}',
    "a sum in text": '{"a":"1+1=2, 3e4: [x], {y}"}',
    "a long text": '{"a":"' + "lorem ipsum, dolor: " * 500 + '"}',
    "equal keys in another object": '[{"id":1},{"id":2},{"type":3,"id":4,"event":{"id":5}}]',
    "a thousand lists": "[" + "[]," * 1000 + "[]]",
    "an invoice": json.dumps({"object": "list", "data": [LINE] * 9}),
}
STYLES: dict[str, dict[str, Any]] = {
    "compact": {"separators": (",", ":")},
    "spaced": {},
    "on lines": {"indent": 2},
    "on lines with tabs": {"indent": "\t"},
    "in text beyond ASCII": {"ensure_ascii": False, "separators": (",", ":")},
    "as Jackson prints it": {"indent": 2, "separators": (",", " : ")},
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("what", ORDINARY)
def test_an_ordinary_body_has_a_plan(what: str, style: str) -> None:
    for name in SERVED:
        told = json.loads(ALL[name].body)
        written = json.dumps(told | {"more": None}, **STYLES[style])
        body = raw(written.replace("null", ORDINARY[what], 1))
        assert accepted(name, body).planned is not None


@served_case
@pytest.mark.parametrize("behind", [b"\n", b"\r\n", b"  "])
def test_white_space_behind_a_body_changes_nothing(name: str, behind: bytes) -> None:
    assert accepted(name, ALL[name].body + behind).planned is not None


QUESTIONS = {
    "slack": b'{"type":"url_verification","challenge":"c","event_id":"e"}',
    "zoom": b'{"event":"endpoint.url_validation","payload":{"plainToken":"t"},"event_ts":1}',
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_has_no_plan(name: str) -> None:
    told = QUESTIONS[name]
    escaped = told.replace(b"_v", b"\\u005fv").replace(b".u", b"\\u002eu")
    for body in (told, escaped, json.dumps(json.loads(told), indent=2).encode()):
        assert accepted(name, body) == Outcome(None, None)


@pytest.mark.parametrize("name", ["github", "slack", "own-fields"])
def test_a_form_has_no_plan(name: str) -> None:
    for body in (
        b"payload=%7B%22id%22%3A1%7D",
        b'payload={"event_id":"e"}',
        b" " * 300 + b'{"a=":1}',
    ):
        assert accepted(name, body).planned is None


@served_case
@SETTINGS
@given(offset=st.one_of(st.floats(-1e6, 1e6), st.integers(-100_000, 100_000)))
def test_a_plan_takes_no_age_that_the_source_does_not_take(name: str, offset: float) -> None:
    case = ALL[name]
    arrival = case.signed()
    tolerance = case.source.tolerance or 0.0
    for now in (
        NOW + offset,
        NOW + tolerance + offset / 1e6,
        NOW - case.source.ahead + offset / 1e6,
    ):
        both(case.source, arrival, now)


@served_case
def test_a_plan_knows_the_edges_of_the_tolerance(name: str) -> None:
    case = ALL[name]
    for tolerance in (None, timedelta(seconds=5), timedelta(days=400)):
        source = Source(case.provider, case.verifier, tolerance=tolerance)
        arrival = case.signed()
        for age in (
            -301,
            -300.001,
            -300,
            -5.5,
            -5,
            0,
            5,
            5.001,
            300,
            301,
            400 * 86400,
            400 * 86400 + 1,
        ):
            found = both(source, arrival, NOW + age)
            assert (found.planned is None) == (found.judged is None)


@served_case
def test_of_several_secrets_a_plan_names_the_one_that_matched(name: str) -> None:
    case = ALL[name]
    arrival, old, new = case.signed(), case.keys.verifier, other_secret(case)
    ends = datetime.fromtimestamp(NOW, UTC)
    for secrets in (
        {"new": new, "old": old},
        {"old": old, "new": new},
        {"new": new},
        [Secret(old, name="past", not_after=ends - timedelta(seconds=1))],
        [Secret(old, name="past", not_after=ends - timedelta(seconds=1)), Secret(old, name="b")],
        [Secret(old, name="last", not_after=ends), Secret(new, name="b")],
        [Secret(old, name="a"), Secret(old, name="b")],
    ):
        source = Source(case.provider, secrets)
        for now in (NOW, NOW - 1, NOW + 0.5):
            found = both(source, arrival, now)
            assert (found.planned is None) == (found.judged is None)


def other_secret(case: Case) -> str:
    """A secret of the same form with which nothing was signed."""
    text = case.keys.verifier
    return text[:-6] + ("A" if text[-6] != "A" else "B") + text[-5:]


@pytest.mark.parametrize("name", ["stripe", "paddle", "standard-webhooks", "svix", "gitlab"])
def test_every_one_of_several_signatures_is_tried(name: str) -> None:
    case = ALL[name]
    arrival = case.signed()
    header = next(one for one in arrival.headers if "ignature" in one)
    standard = "webhook" in name or name in ("svix", "gitlab")
    forged, space = (
        ("v1,AAAA", " ") if standard else ("v1=00" if name == "stripe" else "h1=00", ",")
    )
    space = ";" if name == "paddle" else space
    genuine = arrival.headers[header]
    for before, behind in ((0, 1), (1, 0), (3, 4), (7, 0), (0, 7), (8, 0), (20, 20)):
        text = space.join([forged] * before + [genuine] + [forged] * behind)
        found = both(case.source, Arrival({**arrival.headers, header: text}, arrival.body))
        assert (found.planned is None) == (found.judged is None) == (before + behind >= 8)


@pytest.mark.parametrize(
    "options",
    [{"missing_id": "reject"}, {"parse": "require"}, {"limits": Limits(depth=5000)}],
    ids=str,
)
def test_a_source_that_asks_for_more_has_no_plan(options: dict[str, Any]) -> None:
    source = Source("stripe", "secret", **options)
    assert compile_plan(source) is None or not reads_partly()


@SETTINGS
@given(
    limits=st.builds(
        Limits, depth=st.integers(0, 100), size=st.integers(1, 3000), digits=st.integers(1, 500)
    ),
    body=st.one_of(
        st.sampled_from([raw(text) for text in ORDINARY.values()]),
        st.sampled_from(list(SKIPPED.values())),
        st.integers(0, 120).map(lambda depth: b"[" * depth + b"]" * depth),
        st.integers(1, 500).map(lambda digits: b"1" * digits),
    ),
)
def test_a_plan_keeps_the_limits_of_its_source(limits: Limits, body: bytes) -> None:
    case = ALL["stripe"]
    source = Source(case.provider, case.verifier, limits=limits)
    both(source, case.signed(with_skipped(case, body)))
