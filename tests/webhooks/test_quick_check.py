"""`verify` and `check_signature` say the same with the check that is made for the common case.

The schemes themselves are the judges: each delivery is checked once more by a source whose quick
check finds nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import duly
from duly.errors import Rejected, UsageError
from duly.webhooks import Source, check_signature
from duly.webhooks.quick_check import QuickSignature, begun_hashes, find_nothing, quick_signature
from tests.webhooks.arena import CASES, NOW, Arrival, names_of, sample_of
from tests.webhooks.hostile import HEADERS
from tests.webhooks.judgement import PLAIN
from tests.webhooks.strategies import edited, odd_case
from tests.webhooks.test_receive_plan import other_secret

SETTINGS = settings(
    max_examples=300 if os.environ.get("DULY_LONG") == "1" else 12,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
QUICK = (
    "github", "gitlab", "gitlab-2", "paddle", "slack", "standard-webhooks", "stripe", "svix",
    "zoom", "hmac-sha1-hex", "hmac-sha512-base64", "token-header",
)  # fmt: skip
every_case = pytest.mark.parametrize("name", CASES)


def plainly(source: Source) -> Source:
    """The same source without its quick check."""
    again = Source(source.provider, source.secrets, tolerance=None)
    again.tolerance, again.ahead = source.tolerance, source.ahead
    scheme, keys = again.schemes[0]
    again._quick = QuickSignature(scheme, keys, find_nothing, find_nothing)
    return again


def told(source: Source, arrival: Arrival, now: Any) -> list[object]:
    """What both functions say of an arrival: all properties, or the refusal with its reason."""
    request: Any = (source, arrival.headers, arrival.body)
    asked: Any = {"now": now, "method": arrival.method}

    def properties() -> list[str]:
        found = duly.verify(*request, url=arrival.url, **asked)
        return [repr(getattr(found, name)) for name in PLAIN]

    said: list[object] = []
    for ask in (
        properties,
        lambda: check_signature(*request, url=arrival.url, **asked),
        lambda: check_signature(*request, **asked),
    ):
        try:
            said.append(ask())
        except Rejected as problem:
            said.append((problem.code, problem.status, str(problem)))
        except UsageError as problem:
            said.append(str(problem))
    return said


def same(source: Source, arrival: Arrival, now: Any = NOW) -> list[object]:
    """Both say the same with the quick check and without."""
    found = told(source, arrival, now)
    assert found == told(plainly(source), arrival, now), (arrival, now)
    return found


def test_the_common_case_of_these_schemes_is_quick() -> None:
    found = []
    for name, case in CASES.items():
        arrival, quick = sample_of(name), quick_signature(case.source)
        texts = dict(arrival.headers)
        lower = {key.lower(): value for key, value in texts.items()}
        if quick.of_headers(texts, arrival.body, NOW) is not None:
            found.append(name)
            assert quick.of_fields(lower, arrival.body, NOW) is not None
            assert quick.of_headers(lower, arrival.body, NOW) is not None
            titles = {key.title(): value for key, value in texts.items()}
            assert quick.of_headers(titles, arrival.body, NOW) is not None
    assert tuple(found) == QUICK


@every_case
@SETTINGS
@given(data=st.data())
def test_a_near_miss_is_judged_the_same(name: str, data: st.DataObject) -> None:
    case = CASES[name]
    arrival = sample_of(name)
    headers: dict[Any, Any] = {}
    for header, value in arrival.headers.items():
        spelled = data.draw(st.one_of(st.just(header), odd_case(header)))
        changed = data.draw(st.sampled_from(["as it is", "as it is", "edited", "left out"]))
        if changed == "edited":
            headers[spelled] = data.draw(edited(value.encode("latin-1"))).decode("latin-1")
        elif changed == "as it is":
            headers[spelled] = value
    for header in data.draw(st.lists(st.sampled_from(names_of(case)), max_size=2)):
        headers[data.draw(odd_case(header))] = data.draw(st.sampled_from(HEADERS))
    if data.draw(st.booleans()):
        headers = {one.encode("latin-1", "replace"): value for one, value in headers.items()}
    body = data.draw(st.one_of(st.just(arrival.body), edited(arrival.body)))
    now = NOW + data.draw(st.sampled_from([0, 0, 299, 300, 301, -300, -301, 0.5]))
    same(case.source, replace(arrival, headers=headers, body=body), now)


@every_case
def test_a_header_that_is_there_twice_is_judged_the_same(name: str) -> None:
    case, arrival = CASES[name], sample_of(name)
    for header, value in arrival.headers.items():
        for other in (header.upper(), header.lower(), header.swapcase()):
            for again in (value, "", "x"):
                before = {other: again, **arrival.headers}
                behind = {**arrival.headers, other: again}
                for headers in (before, behind, {**before, f"X-{header}": again}):
                    same(case.source, replace(arrival, headers=headers))


@every_case
def test_several_secrets_and_their_ends_are_judged_the_same(name: str) -> None:
    case, arrival = CASES[name], sample_of(name)
    if case.named or not isinstance(case.keys.plain, bytes) or name == "basic-auth":
        return  # keys that are told by their id, and pairs: there is no quick check
    own, other = case.keys.verifier, other_secret(case)
    for secrets in ({"a": other, "b": own}, {"a": own, "b": other}, {"a": own, "b": own}):
        source = Source(case.provider, secrets)
        assert told(source, arrival, NOW) == told(plainly(source), arrival, NOW)


@pytest.mark.parametrize("name", QUICK)
def test_what_is_no_request_is_refused_as_ever(name: str) -> None:
    case, arrival = CASES[name], sample_of(name)
    odd: list[Any] = [
        (case.source, arrival.headers, arrival.body.decode()),
        (case.source, arrival.headers, None),
        (case.source, None, arrival.body),
        (case.source, {1: "x"}, arrival.body),
        (case.source, arrival.headers, arrival.body, "secret"),
    ]
    for arguments in odd:
        with pytest.raises(UsageError):
            check_signature(*arguments, now=NOW)
    for options in ({"now": "yesterday"}, {"now": True}, {"method": None}, {"url": 1}):
        with pytest.raises(UsageError):
            check_signature(case.source, arrival.headers, arrival.body, **({"now": NOW} | options))


@SETTINGS
@given(
    key=st.binary(max_size=300),
    content=st.binary(max_size=300),
    digest=st.sampled_from(["sha1", "sha256", "sha384", "sha512", "sha3_256", "blake2b", "md5"]),
)
def test_two_hashes_make_the_hmac_of_the_standard_library(
    key: bytes, content: bytes, digest: str
) -> None:
    inner, outer = begun_hashes(key, digest)
    for _ in range(2):  # what was begun is copied, not used up
        below, mac = inner.copy(), outer.copy()
        below.update(content)
        mac.update(below.digest())
        assert mac.digest() == hmac.digest(key, content, digest)


def test_a_key_of_any_length_is_begun_as_the_standard_library_begins_it() -> None:
    for length in range(150):
        for digest in ("sha256", "sha512"):
            inner, outer = begun_hashes(b"k" * length, digest)
            outer.update(inner.digest())
            assert outer.digest() == hmac.digest(b"k" * length, b"", digest)
    assert hashlib.new("sha256").block_size == 64
