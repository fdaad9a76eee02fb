"""Whatever arrives has an explanation, and it gives nothing away."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import duly
from duly.webhooks import SharedToken, provider_named, provider_names
from duly.webhooks.diagnose.explain import explain
from tests.webhooks.mistakes import (
    BODY,
    CANARIES,
    FORM,
    HELD,
    KEYED,
    NOW,
    SIGNING,
    TEXT,
    TOKENS,
    URL,
    WHSEC,
    sent,
    source,
)

HEADERS = sorted(
    {
        name.lower()
        for provider in provider_names()
        for name in duly.sign(
            provider,
            provider_named(provider).sample,
            SIGNING.get(provider, HELD.get(provider, TEXT)),
            url=URL,
        ).headers
    }
    | {"host", "forwarded", "x-forwarded-host", "x-original-uri", "date", "content-length",
       "x-hub-signature", "authorization", "x-gitlab-token", "x-hubspot-signature"}
)  # fmt: skip
SOURCES = [source(provider) for provider in provider_names()] + [
    duly.Source(KEYED, duly.Secret(WHSEC, name="main", key_id="k1")),
    duly.Source(TOKENS, TEXT),
    duly.Source(duly.Provider("asked", SharedToken(place="query:token")), TEXT),
]
VALUES = st.one_of(
    st.text(max_size=40),
    st.binary(max_size=40),
    st.sampled_from([f"t={NOW},v1=00", "v1,AA==", "sha256=00", str(NOW), "a.b.c", "host=[::1"]),
    st.lists(st.text(max_size=5), max_size=3),
)
BODIES = st.one_of(
    st.binary(max_size=80),
    st.text(max_size=80).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from(
        [BODY, FORM, b"", b"b'\\xff\\'", b"\x1f\x8bcanary", b"\xef\xbb\xbf", b'"' + b"QQ" + b'"']
    ),
    st.recursive(
        st.none() | st.text(max_size=5) | st.integers() | st.floats(allow_nan=False),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode()),
)
URLS = st.none() | st.text(max_size=30) | st.sampled_from([URL, "https://[::1", "//", "http://h:x"])


@settings(max_examples=200, deadline=None)
@given(
    receiver=st.sampled_from(SOURCES),
    headers=st.dictionaries(st.sampled_from(HEADERS) | st.text(max_size=8), VALUES, max_size=6),
    body=BODIES,
    url=URLS,
    method=st.text(max_size=5),
    others=st.lists(st.sampled_from(SOURCES), max_size=2),
)
def test_every_delivery_has_an_explanation(
    receiver: duly.Source,
    headers: dict[str, Any],
    body: bytes,
    url: str | None,
    method: str,
    others: list[duly.Source],
) -> None:
    sentence = explain(receiver, headers, body, now=NOW, url=url, method=method, others=others)
    assert sentence.endswith((".", "?"))
    assert "\n" not in sentence
    assert not [one for one in CANARIES if one in sentence]


@settings(max_examples=200, deadline=None)
@given(
    provider=st.sampled_from(provider_names()),
    place=st.integers(0, 200),
    put=st.binary(max_size=3),
    body=BODIES,
    url=URLS,
)
def test_a_delivery_with_one_part_changed_has_an_explanation(
    provider: str, place: int, put: bytes, body: bytes, url: str | None
) -> None:
    delivery = sent(provider, provider_named(provider).sample)
    headers = dict(delivery.headers)
    name = sorted(headers)[place % len(headers)]
    headers[name] = headers[name][:place] + put.decode("latin-1") + headers[name][place + 1 :]
    cut = delivery.body[:place] + put + delivery.body[place + 1 :]
    for fields, raw, called in (
        (headers, delivery.body, delivery.url),
        (delivery.headers, cut, delivery.url),
        (delivery.headers, body, delivery.url),
        (delivery.headers, delivery.body, url),
        (headers, body, url),
    ):
        sentence = explain(source(provider), fields, raw, now=NOW, url=called)
        assert sentence.endswith((".", "?"))
        assert not [one for one in CANARIES if one in sentence]
