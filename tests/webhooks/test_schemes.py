"""The parts that profiles are made of: each accepts what is signed right, and nothing else."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import pytest

import duly
from duly import Provider, Source
from duly.errors import Rejected, UsageError
from duly.webhooks import (
    Code,
    Ecdsa,
    Ed25519,
    Hmac,
    Jwt,
    NamedFields,
    PlainDigest,
    SharedToken,
    StandardWebhooks,
    Template,
)
from tests.webhooks.genuine import NOW, URL, delivered, keys, source, verified
from tests.webhooks.own import BODY, SECRET, provider, rejected, taken


@pytest.mark.parametrize("encoding", ["hex", "base64", "base64url"])
@pytest.mark.parametrize("digest", ["sha1", "sha256", "sha384", "sha512", "sha3_256", "md5"])
def test_hmac_takes_any_digest_and_encoding(digest: str, encoding: str) -> None:
    scheme = Hmac(header="X-Sum", digest=digest, encoding=encoding)
    raw = hmac.new(SECRET.encode(), BODY, digest).digest()
    text = {
        "hex": raw.hex(),
        "base64": base64.b64encode(raw).decode(),
        "base64url": base64.urlsafe_b64encode(raw).decode().rstrip("="),
    }[encoding]
    assert taken(scheme, {"X-Sum": text}).id == "a"
    assert duly.sign(provider(scheme), BODY, SECRET).headers["X-Sum"] == text
    for wrong in (text[:-1], text + "=", " " + text, text + "\n", text[1:] + text[0], "", "\0"):
        rejected(Code.BAD_SIGNATURE, scheme, {"X-Sum": wrong})


def test_hex_is_compared_as_the_number_it_is() -> None:
    text = hmac.new(SECRET.encode(), BODY, "sha256").hexdigest().upper()
    assert taken(Hmac(header="X-Sum"), {"X-Sum": text}).id == "a"


TEMPLATES = {
    "{body}": BODY,
    "{timestamp}.{body}": b"1767225600." + BODY,
    "v0:{timestamp}:{body}": b"v0:1767225600:" + BODY,
    "{method}{url}{body}{timestamp}": b"POST" + URL.encode() + BODY + b"1767225600",
    "{header:X-Request-Id}|{body}": b"r-1|" + BODY,
    "100%{body}%b%": b"100%" + BODY + b"%b%",
    "{body}{body}": BODY + BODY,
}


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_is_what_is_signed(template: str) -> None:
    timed = "X-Time" if "{timestamp}" in template else None
    scheme = Hmac(header="X-Sum", signed=template, timestamp=timed)
    sums = hmac.new(SECRET.encode(), TEMPLATES[template], "sha256").hexdigest()
    headers = {"X-Sum": sums, "X-Time": "1767225600", "X-Request-Id": "r-1"}
    assert taken(scheme, headers, url=URL).id == "a"
    rejected(Code.BAD_SIGNATURE, scheme, headers, body=BODY + b" ")
    if "{header" in template:
        rejected(Code.BAD_SIGNATURE, scheme, headers | {"X-Request-Id": "r-2"})
        rejected(Code.MALFORMED, scheme, {"X-Sum": sums})


@pytest.mark.parametrize(
    "time", ["", " 1767225600", "+1767225600", "1767225600.0", "1_767_225_600", "0x1", "-1", "1e9",
             "\u0661", "1" * 13, "now"],
)  # fmt: skip
def test_a_time_is_a_plain_number_or_malformed(time: str) -> None:
    scheme = Hmac(header="X-Sum", signed="{timestamp}.{body}", timestamp="X-Time")
    content = time.encode("utf-8") + b"." + BODY
    sums = hmac.new(SECRET.encode(), content, "sha256").hexdigest()
    rejected(Code.MALFORMED, scheme, {"X-Sum": sums, "X-Time": time})
    rejected(Code.MALFORMED, scheme, {"X-Sum": sums})


def test_a_time_is_signed_as_it_was_written() -> None:
    scheme = Hmac(header="X-Sum", signed="{timestamp}.{body}", timestamp="X-Time")
    for time in ("1767225600", "001767225600"):
        content = time.encode() + b"." + BODY
        sums = hmac.new(SECRET.encode(), content, "sha256").hexdigest()
        assert taken(scheme, {"X-Sum": sums, "X-Time": time}).sent == NOW


def stripe(*fields: str) -> dict[str, str]:
    return {"Stripe-Signature": ",".join(fields)}


def test_named_fields_take_any_good_signature_among_bad_ones() -> None:
    good = hmac.new(b"s", b"1767225600." + BODY, "sha256").hexdigest()
    headers = stripe("t=1767225600", "v1=bad", "v0=" + good, " v1=" + good, "v2=x", "v1", "=")
    assert duly.verify("stripe", headers, BODY, "s", now=NOW).id == "a"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        (["t=1767225600", "v1=bad"], Code.BAD_SIGNATURE),
        (["t=1767225600", "v0=bad"], Code.MALFORMED),
        (["v1=bad"], Code.MALFORMED),
        (["t=1767225600", "t=1767225600", "v1=bad"], Code.MALFORMED),
        (["t=x", "v1=bad"], Code.MALFORMED),
        (["t=1767225600", *["v1=bad"] * 9], Code.MALFORMED),
        ([""], Code.MALFORMED),
    ],
)
def test_named_fields_that_cannot_match_say_why(fields: list[str], code: Code) -> None:
    with pytest.raises(Rejected) as caught:
        duly.verify("stripe", stripe(*fields), BODY, "s", now=NOW)
    assert caught.value.code is code


def test_several_signatures_are_all_tried_up_to_a_cap() -> None:
    signed = delivered("standard-webhooks")
    good = signed.headers["webhook-signature"]
    for words, code in (
        ([good, *["v1,bad"] * 7], None),
        ([*["v1,bad"] * 7, good], None),
        (["v9,later", "", "v1a,bad", "v1", good], None),
        ([*["v1,bad"] * 8, good], Code.MALFORMED),
        (["v2," + good[3:]], Code.MALFORMED),
        ([good.replace("v1,", "v1a,")], Code.BAD_SIGNATURE),
        ([good.replace(",", ", ")], Code.BAD_SIGNATURE),
        ([good + "="], Code.BAD_SIGNATURE),
    ):
        headers = signed.headers | {"webhook-signature": " ".join(words)}
        if code is None:
            assert verified(source("standard-webhooks"), signed, headers=headers).id
            continue
        with pytest.raises(Rejected) as caught:
            verified(source("standard-webhooks"), signed, headers=headers)
        assert caught.value.code is code


@pytest.mark.parametrize("name", ["github", "gitlab", "hubspot"])
def test_a_source_without_legacy_refuses_the_older_signatures(name: str) -> None:
    secret = "token" if name == "gitlab" else "s"
    sums = {
        "github": {"X-Hub-Signature": "sha1=" + hmac.new(b"s", BODY, "sha1").hexdigest()},
        "gitlab": {"X-Gitlab-Token": secret},
        "hubspot": {"X-HubSpot-Signature": hashlib.sha256(b"s" + BODY).hexdigest()},
    }[name]
    assert duly.verify(name, sums, BODY, secret, now=NOW, url=URL).secret == "1"
    if name == "gitlab":
        with pytest.raises(UsageError, match="must begin with whsec_"):
            Source("gitlab", secret, legacy=False)
        secret = keys("gitlab").receiver
    with pytest.raises(Rejected) as caught:
        duly.verify(Source(name, secret, legacy=False), sums, BODY, now=NOW, url=URL)
    assert caught.value.code is Code.MISSING_SIGNATURE


def test_hubspots_second_version_counts_only_under_its_own_name() -> None:
    sums = hashlib.sha256(b"sPOST" + URL.encode() + BODY).hexdigest()
    headers = {"X-HubSpot-Signature": sums, "X-HubSpot-Signature-Version": "v2"}
    assert duly.verify("hubspot", headers, BODY, "s", url=URL).secret == "1"
    for refused in (headers | {"X-HubSpot-Signature-Version": "v1"}, {"X-HubSpot-Signature": sums}):
        with pytest.raises(Rejected):
            duly.verify("hubspot", refused, BODY, "s", url=URL)
    with pytest.raises(Rejected):
        duly.verify(Source("hubspot", "s", legacy=False), headers, BODY, url=URL)


def test_a_better_signature_that_is_wrong_is_not_saved_by_an_older_one() -> None:
    old = "sha1=" + hmac.new(b"s", BODY, "sha1").hexdigest()
    headers = {"X-Hub-Signature-256": "sha256=" + "0" * 64, "X-Hub-Signature": old}
    with pytest.raises(Rejected) as caught:
        duly.verify("github", headers, BODY, "s")
    assert caught.value.code is Code.BAD_SIGNATURE


def test_a_plain_digest_takes_no_padding_for_text() -> None:
    scheme = PlainDigest(header="X-Sum")
    for body, good in ((BODY, True), (BODY + b"\x80\x00\x00", False), (BODY + b"\0", False)):
        sums = hashlib.sha256(SECRET.encode() + body).hexdigest()
        if good:
            assert taken(scheme, {"X-Sum": sums}, body=body).id == "a"
        else:
            rejected(Code.BAD_SIGNATURE, scheme, {"X-Sum": sums}, body=body)


@pytest.mark.parametrize("scheme", [Ed25519(header="X-Sum"), Ecdsa(header="X-Sum")])
def test_bytes_that_are_no_signature_are_a_bad_one(scheme: Any) -> None:
    secret = keys("discord" if isinstance(scheme, Ed25519) else "sendgrid").receiver
    for text in ("", "00", "zz", "0" * 128, "ff" * 64, "3006020100020100", "30" * 500):
        rejected(Code.BAD_SIGNATURE, scheme, {"X-Sum": text}, secret)


UNUSABLE: list[tuple[Any, dict[str, Any], str]] = [
    (Hmac, {"header": "X", "digest": "crc32"}, "digest must be"),
    (Hmac, {"header": "X", "digest": "shake_128"}, "digest must be"),
    (Hmac, {"header": "X", "encoding": "morse"}, "encoding must be"),
    (Hmac, {"header": "X", "unit": "h"}, "unit must be"),
    (Hmac, {"header": "X", "secret": "morse"}, "secret must be"),
    (Hmac, {"header": "X", "signed": "nothing"}, "must hold what is signed"),
    (Hmac, {"header": "X", "signed": "{boddy}"}, "must use"),
    (Hmac, {"header": "X", "signed": "{timestamp}{body}"}, "must say where"),
    (Hmac, {"header": "X", "timestamp": "X-Time"}, "must not trust it"),
    (PlainDigest, {"header": "X", "digest": "crc32"}, "digest must be"),
    (Ecdsa, {"header": "X", "digest": "md5"}, "digest must be"),
    (SharedToken, {"place": "body:token"}, "must be in a header"),
    (Jwt, {"header": "X", "algorithms": ()}, "algorithms must be"),
    (Jwt, {"header": "X", "algorithms": ("none",)}, "algorithms must be"),
    (Jwt, {"header": "X", "algorithms": ("HS256", "ES256")}, "must not mix"),
    (StandardWebhooks, {"key_id": "("}, "key_id must be"),
    (StandardWebhooks, {"key_id": "kid"}, "key_id must be"),
    (Template, {"text": "{header:}"}, "must use"),
]


@pytest.mark.parametrize(("scheme", "arguments", "told"), UNUSABLE)
def test_a_scheme_that_cannot_work_is_refused_when_it_is_made(
    scheme: Any, arguments: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        scheme(**arguments)


def test_a_header_of_fields_without_a_time_is_written_and_read() -> None:
    scheme = Hmac(header="X-Sums", fields=NamedFields(signature="s", separator=";"))
    headers = duly.sign(provider(scheme), BODY, SECRET).headers
    assert taken(scheme, headers | {"X-Sums": "a=b;" + headers["X-Sums"]}).id == "a"


def test_a_prefix_in_capitals_is_kept_before_hex_of_either_case() -> None:
    scheme = Hmac(header="X-Sum", prefix="SHA256=")
    own = Provider("own", scheme)
    sent = duly.sign(own, BODY, SECRET)
    assert sent.headers["X-Sum"].startswith("SHA256=")
    duly.verify(own, sent.headers, BODY, SECRET)
    shouted = "SHA256=" + sent.headers["X-Sum"].removeprefix("SHA256=").upper()
    duly.verify(own, {"X-Sum": shouted}, BODY, SECRET)
