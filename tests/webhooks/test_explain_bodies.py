"""Bodies that were parsed, decoded, wrapped or cut before they were verified."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any
from urllib.parse import quote_plus, unquote_plus

import pytest

from tests.webhooks.mistakes import BODY, FORM, OVER_THE_BODY, explained, sent, source


def python_default(value: Any) -> str:
    return json.dumps(value)


def javascript(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def compact_ascii(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def spaced(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def two_deep(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def four_deep(value: Any) -> str:
    return json.dumps(value, indent=4)


def by_name(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def slashes(value: Any) -> str:
    return compact_ascii(value).replace("/", "\\/")


def for_html(value: Any) -> str:
    text = javascript(value).replace("<", "\\u003c").replace(">", "\\u003e")
    return text.replace("&", "\\u0026") + "\n"


WRITERS = [
    python_default, javascript, compact_ascii, spaced, two_deep, four_deep, by_name, slashes,
    for_html,
]  # fmt: skip
AGAIN = "was parsed and written again before it was verified: pass the raw bytes"


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("provider", ["stripe", "standard-webhooks", "discord", "square"])
def test_json_that_was_written_again_is_recognised(provider: str, writer: Any) -> None:
    delivery = sent(provider, writer(json.loads(BODY)).encode())
    rewriter = javascript if writer is not javascript else python_default
    body = rewriter(json.loads(BODY)).encode()
    assert AGAIN in explained(source(provider), delivery.headers, body)


@pytest.mark.parametrize("provider", OVER_THE_BODY)
def test_json_that_was_written_again_is_recognised_for_every_provider(provider: str) -> None:
    delivery = sent(provider)
    body = json.dumps(json.loads(BODY)).encode()
    assert AGAIN in explained(source(provider), delivery.headers, body)


MARK = b"\xef\xbb\xbf"
LINES = b'{"note":\n "canary-body"}\n'
WINDOWS = b'{"note":\r\n "canary-body"}\r\n'
ACCENT = '{"note": "canary-body é €"}'
CHANGES = [
    (MARK + BODY, BODY, "gained or lost a byte order mark"),
    (BODY, MARK + BODY, "gained or lost a byte order mark"),
    (b"canary-body\n", b"canary-body", "at its end"),
    (b"canary-body\r\n", b"canary-body", "at its end"),
    (b"canary-body", b"canary-body\n", "at its end"),
    (b"canary-body", b" canary-body\r\n", "at its end"),
    (LINES, WINDOWS, "has other line ends"),
    (WINDOWS, LINES, "has other line ends"),
    (ACCENT.encode(), ACCENT.encode("cp1252"), "another character set"),
    (ACCENT.encode(), ACCENT.encode().decode("latin-1").encode(), "another character set"),
    (ACCENT.encode(), ACCENT.encode().decode("cp1252").encode(), "another character set"),
    (ACCENT.encode(), ACCENT.encode("utf-16"), "another character set"),
    (b"canary-body \xe9", "canary-body é".encode(), "another character set"),
    ("canary-body é".encode(), b"canary-body \xe9", "another character set"),
    ("canary-body 😀".encode(), b"canary-body \xed\xa0\xbd\xed\xb8\x80", "another character set"),
    (b"canary-body \xe9", b"canary-body \xed\xb3\xa9", "another character set"),
    (BODY, base64.b64encode(BODY), "still wrapped by a gateway"),
    (BODY, json.dumps(BODY.decode()).encode(), "still wrapped by a gateway"),
    (BODY, json.dumps({"body": BODY.decode(), "path": "/"}).encode(), "still wrapped"),
    (BODY, json.dumps({"body": base64.b64encode(BODY).decode()}).encode(), "still wrapped"),
    (BODY, str(BODY).encode(), "still wrapped by a gateway"),
]


@pytest.mark.parametrize("case", CHANGES)
@pytest.mark.parametrize("provider", ["stripe", "github", "standard-webhooks", "discord"])
def test_what_happened_to_a_body_is_undone(provider: str, case: tuple[bytes, bytes, str]) -> None:
    original, received, sentence = case
    delivery = sent(provider, original)
    assert sentence in explained(source(provider), delivery.headers, received)


def test_a_compressed_body_is_recognised() -> None:
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(BODY) + packer.flush()
    delivery = sent("shopify")
    assert "is still compressed" in explained(source("shopify"), delivery.headers, packed)


@pytest.mark.parametrize(
    "received",
    [
        unquote_plus(FORM.decode()).encode(),
        FORM.replace(b"+", b"%20"),
        FORM.replace(b"%2F", b"/"),
        json.dumps({"MessageSid": "canary-body", "Text": "a b/cé", "Blank": ""}).encode(),
    ],
)
@pytest.mark.parametrize("provider", ["slack", "github"])
def test_a_form_that_was_decoded_is_recognised(provider: str, received: bytes) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    delivery = sent(provider, FORM, headers=headers)
    assert "is a form that was decoded before it was verified" in explained(
        source(provider), delivery.headers, received
    )


@pytest.mark.parametrize("provider", ["slack", "github"])
def test_the_json_of_a_form_without_its_form_is_recognised(provider: str) -> None:
    delivery = sent(provider, b"payload=" + quote_plus(BODY).encode())
    sentence = explained(source(provider), delivery.headers, BODY)
    assert "is a form that was decoded before it was verified" in sentence


def test_a_body_of_another_length_than_announced_was_cut() -> None:
    delivery = sent("stripe", headers={"Content-Length": str(len(BODY))})
    sentence = explained(source("stripe"), delivery.headers, delivery.body[:20])
    assert f"The body has 20 bytes where Content-Length says {len(BODY)}" in sentence


def test_replacement_characters_point_to_a_decoder() -> None:
    delivery = sent("stripe", b"canary-body \xff")
    received = delivery.body.decode("utf-8", "replace").encode()
    sentence = explained(source("stripe"), delivery.headers, received)
    assert "holds replacement characters (U+FFFD)" in sentence
