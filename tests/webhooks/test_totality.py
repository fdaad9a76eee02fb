"""Every delivery is a `VerifiedDelivery` or `Rejected`; nothing else is raised, then or later.

Hypothesis invents the arrivals. DULY_LONG=1 tries at least 20,000 for each property and says how
many there were.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duly.errors import Rejected
from duly.webhooks import Limits, Source, VerifiedDelivery
from tests.support.growth import LINEAR, growth
from tests.webhooks.arena import CASES, Arrival, names_of, sample_of, signable
from tests.webhooks.hostile import BODIES, HEADERS, SLOW, VALUES, raw
from tests.webhooks.judgement import excused, outcome
from tests.webhooks.oracle import genuine
from tests.webhooks.strategies import (
    URLS,
    bodies_to_sign,
    headers,
    methods,
    near_misses,
    urls,
    values,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

LONG = os.environ.get("DULY_LONG") == "1"
EACH = -(-20_000 // len(CASES)) if LONG else 5  # for each of some forty cases
SETTINGS = settings(
    max_examples=EACH,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
every_case = pytest.mark.parametrize("name", CASES)
TIMELESS = {
    name: Source(case.provider, case.verifier, tolerance=None) for name, case in CASES.items()
}
# A private key of RSA takes a tenth of a second to read, and nothing else about it differs.
QUICK = [case for name, case in CASES.items() if name != "jwt-rs256"]
ran: Counter[str] = Counter()


@pytest.fixture(scope="module", autouse=True)
def count(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    capture: Any = request.config.pluginmanager.get_plugin("capturemanager")
    if LONG:
        with capture.global_and_fixture_disabled():
            for name, number in sorted(ran.items()):
                print(f"\n{name}: {number:,} examples", end="", flush=True)


@every_case
@SETTINGS
@given(data=st.data())
def test_anything_at_all_is_verified_or_rejected(name: str, data: st.DataObject) -> None:
    ran["anything at all"] += 1
    case = CASES[name]
    arrival = Arrival(
        data.draw(headers(case)),
        data.draw(bodies_to_sign(case)),
        data.draw(urls),
        data.draw(methods),
    )
    assert isinstance(outcome(case, arrival), Rejected) or genuine(case, arrival)


@every_case
@SETTINGS
@given(data=st.data())
def test_a_near_miss_of_a_genuine_delivery_is_verified_or_rejected(
    name: str, data: st.DataObject
) -> None:
    ran["near misses"] += 1
    case = CASES[name]
    arrival = data.draw(near_misses(case))
    assert isinstance(outcome(case, arrival), Rejected) or genuine(case, arrival)


@every_case
@SETTINGS
@given(data=st.data())
def test_a_genuine_delivery_of_a_hostile_body_can_be_read(name: str, data: st.DataObject) -> None:
    ran["hostile bodies, signed"] += 1
    case = CASES[name]
    arrival = signable(case, data.draw(bodies_to_sign(case)))
    if arrival is None:
        return
    more = data.draw(st.dictionaries(st.sampled_from(EXTRA), values, max_size=2))
    told = outcome(case, replace(arrival, headers={**arrival.headers, **more}))
    if not more:
        assert isinstance(told, VerifiedDelivery) or told.code in excused(case, arrival)


METHODS = ("", "GET", "post", "po\u017ft", "\ud800", "\0", "x" * 10_000)
EXTRA = ("X-Challenge", "X-Shopify-Triggered-At", "X-GitHub-Event", "X-Gitlab-Event", "traceparent")


@every_case
@SETTINGS
@given(data=st.data())
def test_a_strict_source_rejects_what_it_does_not_like_and_raises_nothing_else(
    name: str, data: st.DataObject
) -> None:
    ran["strict sources"] += 1
    case = CASES[name]
    arrival = signable(case, data.draw(bodies_to_sign(case)))
    strict = Source(
        case.provider,
        case.verifier,
        missing_id=data.draw(st.sampled_from(["body", "reject"])),
        parse=data.draw(st.sampled_from(["accept", "require"])),
        tolerance=None,
        limits=Limits(
            depth=data.draw(st.integers(1, 5000)),
            size=data.draw(st.integers(1, 10_000)),
            digits=data.draw(st.integers(1, 10_000)),
        ),
    )
    if arrival is not None:
        outcome(case, arrival, strict)


@pytest.mark.parametrize("body", [*BODIES, *map(raw, VALUES)], ids=lambda one: repr(one[:20]))
def test_every_hostile_body_is_read_by_every_case(body: bytes) -> None:
    for case in QUICK:
        arrival = signable(case, body)
        if arrival is not None:
            outcome(case, arrival)
            outcome(case, arrival, TIMELESS[case.name])


@every_case
def test_a_time_beyond_any_calendar_is_rejected_or_read(name: str) -> None:
    case = CASES[name]
    for now in (0, 1, 10**11, 999_999_999_999):
        arrival = signable(case, case.body, now=now)
        assert arrival is not None
        outcome(case, arrival)
        outcome(case, arrival, TIMELESS[name])


@every_case
def test_no_header_of_a_genuine_delivery_makes_it_unreadable(name: str) -> None:
    case, original = CASES[name], sample_of(name)
    for header in names_of(case):
        known = {key.lower(): key for key in original.headers}
        for value in HEADERS:
            changed = {**original.headers, known.get(header.lower(), header): value}
            outcome(case, replace(original, headers=changed))
            outcome(case, replace(original, headers=[*original.headers.items(), (header, value)]))


@every_case
def test_no_url_and_no_method_makes_a_genuine_delivery_unreadable(name: str) -> None:
    case, original = CASES[name], sample_of(name)
    changed = [replace(original, url=url) for url in URLS]
    changed += [replace(original, url=original.url + url) for url in URLS]
    changed += [replace(original, method=method) for method in METHODS]
    for arrival in changed:
        assert isinstance(outcome(case, arrival), Rejected) or genuine(case, arrival)


@pytest.mark.parametrize("what", SLOW)
def test_the_time_to_read_a_body_grows_no_faster_than_the_body(what: str) -> None:
    made, size = SLOW[what]
    adyen, hubspot = CASES["adyen"], CASES["hubspot"]

    def signed(length: int) -> Arrival:
        arrival = signable(hubspot, made(length))
        assert arrival is not None
        return arrival

    # Adyen's bodies are read before they are verified: anybody can send one.
    unsigned = growth(lambda length: Arrival({}, made(length)), partial(outcome, adyen), size)
    assert unsigned < LINEAR
    assert growth(signed, partial(outcome, hubspot), size) < LINEAR
