"""No character moves from one signed part into the next, though the signed bytes stay the same.

A template that puts nothing between two parts leaves their boundary open: the bytes are the same
wherever it is drawn. Which of them verify is said here, scheme by scheme, and why that is harmless.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

import duly
from duly.errors import Rejected
from duly.webhooks import Source, StandardWebhooks, VerifiedDelivery
from tests.webhooks.arena import CASES, NOW, Arrival, Case
from tests.webhooks.parts import part_of, with_part

URL = "http://a"
# Bodies whose first or last characters could belong to a time, an id or a URL.
BODIES = (
    b"1",
    b"00",
    b"10",
    b"1.2",
    b"1767225600.x",
    b"1767225600.1.x",
    b":1:2",
    b"|1|",
    b" 1",
    b"",
)
TEMPLATES = {
    name: case
    for name, case in CASES.items()
    if isinstance(case.scheme, StandardWebhooks)
    or len(re.findall("{", getattr(getattr(case.scheme, "content", None), "text", ""))) > 1
}
# Nothing stands between these parts. The method and the URL are not the sender's to choose: pass
# the URL that the provider was given, as a `Source` with url= does, and the body's start is fixed.
OPEN = {
    "square": {"url", "body"},
    "hubspot": {"method", "url", "body"},
    "hubspot-2": {"method", "url", "body"},
    # Our own template: a URL may hold a space.
    "hmac-sha384-base64url": {"url", "body"},
}


def template_of(case: Case) -> list[str]:
    """Placeholders and what stands between them, in turns."""
    scheme = case.scheme
    if isinstance(scheme, StandardWebhooks):
        text = f"{{header:{scheme.prefix}id}}.{{header:{scheme.prefix}timestamp}}.{{body}}"
    else:
        text = scheme.content.text.replace("{timestamp}", f"{{{timestamp_of(case)}}}")
    return [one.strip("{}") for one in re.split(r"(\{[^}]*\})", text)]


def timestamp_of(case: Case) -> str:
    name = case.scheme.timestamp
    return "timestamp" if name is None else f"header:{name}"


def timestamp_part(arrival: Arrival, case: Case) -> bytes:
    """A time inside the signature's header, between its name and the next field."""
    fields = case.scheme.fields
    found = re.search(rf"\b{fields.timestamp}=(\d+)", arrival.headers[case.scheme.header])
    assert found is not None
    return found[1].encode()


def got(case: Case, arrival: Arrival, part: str) -> bytes:
    return timestamp_part(arrival, case) if part == "timestamp" else part_of(arrival, part)


def put(case: Case, arrival: Arrival, part: str, raw: bytes) -> Arrival:
    if part != "timestamp":
        return with_part(arrival, part, raw)
    name = f"header:{case.scheme.header}"
    before = got(case, arrival, "timestamp")
    return with_part(arrival, name, part_of(arrival, name).replace(before, raw, 1))


def divisions(content: bytes, literals: list[bytes]) -> Iterator[tuple[bytes, ...]]:
    """Every way to divide the signed bytes into parts with these texts between them."""
    if not literals:
        yield (content,)
        return
    for place in range(len(content) + 1):
        if content.startswith(literals[0], place):
            for rest in divisions(content[place + len(literals[0]) :], literals[1:]):
                yield (content[:place], *rest)


def moved(case: Case, body: bytes) -> set[str]:
    """The parts that differ in some other division of the same bytes that verifies."""
    pieces = template_of(case)
    parts, literals = pieces[1::2], [one.encode() for one in pieces[2:-1:2]]
    original = case.signed(body, url=URL)
    held = [got(case, original, part) for part in parts]
    content = b"".join(one for pair in zip(held, [*literals, b""], strict=True) for one in pair)
    found: set[str] = set()
    for division in divisions(content, literals):
        changed = original
        for part, raw in zip(parts, division, strict=True):
            changed = put(case, changed, part, raw)
        if division != tuple(held) and changed.url and is_verified(case, changed):
            found |= {
                part for part, one, two in zip(parts, held, division, strict=True) if one != two
            }
    return found


def is_verified(case: Case, arrival: Arrival, source: Source | None = None) -> bool:
    try:
        case.verify(arrival, source)
    except Rejected:
        return False
    return True


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_character_moves_across_a_boundary_but_where_the_template_leaves_it_open(
    name: str,
) -> None:
    case = CASES[name]
    few = len(template_of(case)) > 7  # four parts of a long text have too many divisions
    found = set().union(*(moved(case, body) for body in BODIES if len(body) < 3 or not few))
    assert found == OPEN.get(name, set())


@pytest.mark.parametrize("name", ["square", "hubspot", "hubspot-2"])
def test_a_source_that_knows_its_url_leaves_no_boundary_open(name: str) -> None:
    case = CASES[name]
    fixed = Source(case.provider, case.verifier, url=URL)
    original = case.signed(b'{"id":1}', url=URL)
    longer = replace(original, url=URL + '{"id":', body=b"1}")
    assert is_verified(case, longer)
    duly.verify(fixed, original.headers, original.body, now=NOW)
    with pytest.raises(Rejected):
        duly.verify(fixed, longer.headers, longer.body, now=NOW)


@pytest.mark.parametrize("name", ["discord", "sendgrid", "ecdsa-sha384-hex"])
def test_only_the_tolerance_keeps_a_time_and_a_body_of_digits_apart(name: str) -> None:
    case = CASES[name]
    original = case.signed(b"12")
    header = timestamp_of(case)
    moved_on = with_part(original, header, part_of(original, header) + b"1")
    changed = replace(moved_on, body=b"2")
    assert not is_verified(case, changed)
    timeless = Source(case.provider, case.verifier, tolerance=None)
    assert is_verified(case, changed, timeless)
    centuries = Source(case.provider, case.verifier, tolerance=timedelta(days=10**6))
    assert not is_verified(case, changed, centuries)  # ahead of us, however patient we are


def keys_of(verified: VerifiedDelivery) -> set[str]:
    """What the inbox claims for a delivery."""
    return {key for key in (verified.id, verified.replay_key) if key is not None}


@pytest.mark.parametrize("named", [True, False])
def test_a_forms_fields_run_into_each_other_but_the_replay_is_known(named: bool) -> None:
    case = CASES["twilio"]
    original = case.signed(b"MessageSid=SM1&MessageStatus=sent&To=me")
    bare = {key: value for key, value in original.headers.items() if "token" not in key.lower()}
    first = case.verify(original if named else replace(original, headers=bare))
    for body in (b"MessageSid=SM1&MessageStatus=sentTome", b"MessageSidSM1MessageStatussentTome"):
        second = case.verify(replace(original, headers=bare, body=body))
        assert first.id != second.id
        assert keys_of(first) & keys_of(second)


def test_a_separator_inside_a_signed_field_moves_no_boundary_unnoticed() -> None:
    case = CASES["adyen"]
    original = case.signed(case.body.replace(b'"order-1"', b'"order:1"'))
    changed = replace(
        original,
        body=original.body.replace(b'"Shop"', b'"Shop:order"').replace(b'"order:1"', b'"1"'),
    )
    assert changed.body != original.body
    first = case.verify(original)
    if is_verified(case, changed):
        assert keys_of(first) & keys_of(case.verify(changed))
