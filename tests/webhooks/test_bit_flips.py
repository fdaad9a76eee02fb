"""Nothing is verified once a signed part has changed, be it by a single bit.

Some changes leave the signed content what it was: hex in capitals, an escape in small letters, a
space between two keys of JSON. Whether a change is of that kind is worked out by the oracle, which
shares no code with the gate; everything else must be rejected.
"""

import os
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duly.errors import Rejected
from tests.webhooks.arena import CASES, NOW, Arrival, Case, sample_of, signable
from tests.webhooks.oracle import genuine, readings
from tests.webhooks.parts import every_flip, flipped, part_of, signed_parts, with_part
from tests.webhooks.strategies import bodies_to_sign

LONG = os.environ.get("DULY_LONG") == "1"
SETTINGS = settings(
    max_examples=200 if LONG else 4,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
PARTS = [(name, part) for name, case in CASES.items() for part in signed_parts(case)]
# A part of a delivery in which something else is signed too: it cannot be put into another one.
JOINED = [(name, part) for name, part in PARTS if len(signed_parts(CASES[name])) > 1]
every_part = pytest.mark.parametrize(("name", "part"), PARTS)
every_case = pytest.mark.parametrize("name", CASES)
LATER = NOW + 1
EXTENSIONS = [
    b"\0", b" ", b"\t", b"\n", b"0", b"1", b"=", b"==", b"&", b"&a=1", b",", b".", b";", b"/", b"?",
    b"#", b"}", b"]", b"\xef\xbb\xbf", b"\xff", b"\x80\0\0\0",
]  # fmt: skip


def is_verified(case: Case, arrival: Arrival) -> bool:
    try:
        case.verify(arrival)
    except Rejected:
        return False
    return True


def wrongly_verified(case: Case, original: Arrival, changed: Iterable[Arrival]) -> list[Arrival]:
    """The changed arrivals that verify although they share no reading with the original."""
    meant = readings(case, original)
    return [
        one
        for one in changed
        if is_verified(case, one) and not (meant & readings(case, one) and genuine(case, one))
    ]


@every_part
def test_no_bit_of_a_signed_part_can_be_flipped(name: str, part: str) -> None:
    case = CASES[name]
    original = sample_of(name)
    assert is_verified(case, original)
    flips = (with_part(original, part, raw) for raw in every_flip(part_of(original, part)))
    assert wrongly_verified(case, original, flips) == []


@every_part
@SETTINGS
@given(data=st.data())
def test_no_bit_can_be_flipped_whatever_the_body_is(
    name: str, part: str, data: st.DataObject
) -> None:
    case = CASES[name]
    original = signable(case, data.draw(bodies_to_sign(case)))
    raw = b"" if original is None else part_of(original, part)
    if original is None or not raw:
        return
    # Not bounded by the length: that of a signature may differ from one signing to the next.
    bit = data.draw(st.integers(0, 2**20)) % (len(raw) * 8)
    changed = with_part(original, part, flipped(raw, bit))
    assert wrongly_verified(case, original, [changed]) == []


@every_part
def test_no_signed_part_can_be_cut_short_or_go_on(name: str, part: str) -> None:
    case = CASES[name]
    original = sample_of(name)
    raw = part_of(original, part)
    changed = [raw[:end] for end in range(part == "url", len(raw))] + [
        raw[start:] for start in range(1, len(raw))
    ]
    changed += [raw + more for more in EXTENSIONS] + [more + raw for more in EXTENSIONS]
    changed += [raw + raw, raw + b" " + raw, raw + b"," + raw, raw + b"&" + raw]
    arrivals = [with_part(original, part, one) for one in changed]
    assert wrongly_verified(case, original, arrivals) == []


@pytest.mark.parametrize(("name", "part"), JOINED)
def test_no_part_of_another_genuine_delivery_fits_in(name: str, part: str) -> None:
    case = CASES[name]
    original, other = sample_of(name), another(case)
    assert is_verified(case, other)
    changed = with_part(original, part, part_of(other, part))
    assert wrongly_verified(case, original, [changed]) == []


def another(case: Case) -> Arrival:
    """A second genuine delivery: a second later, with another body and other signed headers."""
    body = case.body + (b"&more=2" if b"=" in case.body else b"\n")
    url = "https://hooks.example:8443/in?shop=2"
    headers = {key: value + "2" for key, value in case.headers.items() if key.startswith("X-")}
    return replace(case, headers={**case.headers, **headers}).signed(body, now=LATER, url=url)


def with_header(arrival: Arrival, name: str, old: str, new: str) -> Arrival:
    part = f"header:{name}"
    changed = part_of(arrival, part).replace(old.encode(), new.encode())
    return with_part(arrival, part, changed)


def signature_in_capitals(arrival: Arrival) -> Arrival:
    raw = part_of(arrival, "header:X-Hub-Signature-256")
    return with_part(arrival, "header:X-Hub-Signature-256", b"sha256=" + raw[7:].upper())


EQUAL = {
    "hex in capitals": ("github", signature_in_capitals),
    "a form's escapes in small letters": (
        "twilio",
        lambda one: replace(one, body=one.body.replace(b"%2B", b"%2b")),
    ),
    "a form's fields in another order": (
        "twilio",
        lambda one: replace(one, body=b"&".join(sorted(one.body.split(b"&"), reverse=True))),
    ),
    "white space outside the signed fields": (
        "adyen",
        lambda one: replace(one, body=one.body.replace(b",", b" ,\n")),
    ),
    "a method in small letters": ("hubspot", lambda one: replace(one, method="post")),
    "basic authentication in capitals": (
        "basic-auth",
        lambda one: with_header(one, "Authorization", "Basic", "BASIC"),
    ),
}


@pytest.mark.parametrize("what", EQUAL)
def test_an_equal_spelling_is_verified_and_the_oracle_says_why(what: str) -> None:
    name, respelled = EQUAL[what]
    case = CASES[name]
    changed = respelled(case.signed())
    assert changed != case.signed()
    assert genuine(case, changed)
    assert is_verified(case, changed)


def test_no_bit_of_a_url_can_be_flipped_where_only_its_port_was_left_out() -> None:
    case = CASES["twilio"]
    original = replace(
        case.signed(url="https://hooks.example/in"), url="https://hooks.example:443/in"
    )
    assert is_verified(case, original)
    raw = original.url.encode()
    changed = [
        *every_flip(raw),
        *(raw + more for more in EXTENSIONS),
        *(m + raw for m in EXTENSIONS),
    ]
    arrivals = [with_part(original, "url", one) for one in changed]
    assert wrongly_verified(case, original, arrivals) == []


@every_case
def test_the_oracle_knows_what_is_genuine_and_what_is_not(name: str) -> None:
    case = CASES[name]
    original = sample_of(name)
    assert genuine(case, original)
    for part in signed_parts(case):
        raw = part_of(original, part)
        assert not genuine(case, with_part(original, part, raw[: len(raw) // 2]))
