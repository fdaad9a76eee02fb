"""Tokens: a shared one, basic authentication, and signed tokens that vouch for a body."""

from __future__ import annotations

import base64
import dataclasses
import hmac
import json

import pytest

import duly
from duly import Secret
from duly.errors import Rejected
from duly.webhooks import BasicAuth, Code, Jwt, SharedToken
from tests.webhooks.genuine import NOW, keys
from tests.webhooks.own import BODY, SECRET, provider, rejected, taken


def test_a_token_is_compared_in_a_header_or_in_the_url() -> None:
    scheme = SharedToken(place="header:X-Token")
    assert taken(scheme, {"x-token": SECRET}).secret == "1"
    rejected(Code.BAD_SIGNATURE, scheme, {"X-Token": SECRET + " "})
    rejected(Code.MISSING_SIGNATURE, scheme, {})
    by_url = SharedToken(place="query:token")
    assert taken(by_url, {}, "t1", url="https://example.com/?token=t1").secret == "1"
    for url, code in (
        ("https://example.com/?token=t2", Code.BAD_SIGNATURE),
        ("https://example.com/?token=t1&token=t1", Code.MISSING_SIGNATURE),
        ("https://example.com/", Code.MISSING_SIGNATURE),
        ("https://[", Code.MISSING_SIGNATURE),
    ):
        rejected(code, by_url, {}, "t1", url=url)


@pytest.mark.parametrize("secret", ["tok\u00e9n", b"t\xe9", b"\xff\xfe"])
def test_a_token_of_any_bytes_makes_the_round_trip(secret: str | bytes) -> None:
    where = provider(SharedToken(place="header:X-Token"))
    signed = duly.sign(where, BODY, secret)
    assert duly.verify(where, signed.headers, signed.body, secret).secret == "1"


def test_basic_authentication_is_read_strictly() -> None:
    told = base64.b64encode(b"user:password").decode()
    for header in (f"Basic {told}", f"basic {told}", f"BASIC {told}"):
        assert taken(BasicAuth(), {"Authorization": header}, "user:password").secret == "1"
    rejected(Code.BAD_SIGNATURE, BasicAuth(), {"Authorization": f"Basic {told}"}, "user:other")
    for header in (f"Bearer {told}", "Basic", f"Basic  {told}", f"Basic {told}=", "Basic !!"):
        rejected(Code.MALFORMED, BasicAuth(), {"Authorization": header}, "user:password")
    rejected(Code.MISSING_SIGNATURE, BasicAuth(), {}, "user:password")


def test_a_jwt_binds_the_body_the_issuer_and_the_time() -> None:
    scheme = Jwt(
        header="Authorization",
        prefix="Bearer ",
        algorithms=("HS256",),
        body_claim="sha256",
        claims={"iss": "acme"},
    )
    headers = duly.sign(provider(scheme), BODY, SECRET, now=NOW).headers
    assert taken(scheme, headers).secret == "1"
    rejected(Code.BAD_SIGNATURE, scheme, headers, body=BODY + b" ")
    rejected(Code.BAD_SIGNATURE, scheme, headers, "another secret")
    rejected(Code.STALE_TIMESTAMP, scheme, headers, now=NOW + 301)
    rejected(Code.MISSING_SIGNATURE, scheme, {})
    rejected(Code.MALFORMED, scheme, {"Authorization": headers["Authorization"][7:]})
    other = dataclasses.replace(scheme, claims={"iss": "other"})
    rejected(Code.BAD_SIGNATURE, other, headers)


def token(header: object, claims: object, key: bytes = SECRET.encode()) -> str:
    """A token signed with HMAC, whatever its header says."""
    parts = [base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=")
             for one in (header, claims)]  # fmt: skip
    signed = b".".join(parts)
    sums = base64.urlsafe_b64encode(hmac.new(key, signed, "sha256").digest()).rstrip(b"=")
    return (signed + b"." + sums).decode()


@pytest.mark.parametrize(
    ("header", "claims", "code"),
    [
        ({"alg": "HS256"}, {}, None),
        ({"alg": "none"}, {}, Code.BAD_SIGNATURE),
        ({"alg": "HS512"}, {}, Code.BAD_SIGNATURE),
        ({"alg": ["HS256"]}, {}, Code.BAD_SIGNATURE),
        ({}, {}, Code.BAD_SIGNATURE),
        ({"alg": "HS256", "crit": ["x"]}, {}, Code.MALFORMED),
        ([], {}, Code.MALFORMED),
        ({"alg": "HS256"}, [], Code.MALFORMED),
        ({"alg": "HS256"}, {"exp": NOW - 61}, Code.STALE_TIMESTAMP),
        ({"alg": "HS256"}, {"exp": NOW - 59}, None),
        ({"alg": "HS256"}, {"nbf": NOW + 61}, Code.STALE_TIMESTAMP),
        ({"alg": "HS256"}, {"exp": "never"}, Code.STALE_TIMESTAMP),
        ({"alg": "HS256"}, {"iat": NOW - 301}, Code.STALE_TIMESTAMP),
    ],
)
def test_a_token_is_judged_by_what_the_profile_accepts(
    header: object, claims: object, code: Code | None
) -> None:
    scheme, headers = Jwt(header="X-Jwt", algorithms=("HS256",)), {"X-Jwt": token(header, claims)}
    if code is None:
        assert taken(scheme, headers).secret == "1"
    else:
        rejected(code, scheme, headers)


def test_a_public_key_is_never_taken_for_a_shared_secret() -> None:
    public = keys("sendgrid").receiver
    forged = {"X-Jwt": token({"alg": "HS256"}, {}, public.encode())}
    rejected(Code.BAD_SIGNATURE, Jwt(header="X-Jwt", algorithms=("ES256",)), forged, public)


def test_a_key_id_chooses_its_key_and_an_unknown_one_is_told() -> None:
    where = provider(Jwt(header="X-Jwt", algorithms=("ES256",)))
    pairs = {name: keys("sendgrid", name) for name in ("k1", "k2")}
    known = [Secret(pair.receiver, name=name, key_id=name) for name, pair in pairs.items()]
    for name, pair in pairs.items():
        signed = duly.sign(where, BODY, Secret(pair.sender, key_id=name), now=NOW)
        assert duly.verify(where, signed.headers, BODY, known, now=NOW).secret == name
        crossed = duly.sign(where, BODY, Secret(pair.sender, key_id="k3"), now=NOW)
        with pytest.raises(Rejected) as caught:
            duly.verify(where, crossed.headers, BODY, known, now=NOW)
        assert (caught.value.code, caught.value.status) == (Code.UNKNOWN_KEY, 403)
