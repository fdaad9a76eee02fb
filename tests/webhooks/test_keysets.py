"""Published keys: a new one is fetched once, a made-up one costs a fetch a minute at most."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from duly import Provider, Secret, sign
from duly.errors import Rejected, UsageError
from duly.webhooks import AsyncKeyset, Code, Keyset, StandardWebhooks, keys_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.types import Signed

NOW = 1_767_225_600
NAMED = Provider("named", StandardWebhooks(key_id=r"(kid_[^.]+)\."), id="header:webhook-id")


class Sender:
    """A sender with key pairs, the document it publishes, and a count of who asked for it."""

    def __init__(self, *published: str) -> None:
        self.pairs: dict[str, Ed25519PrivateKey] = {}
        self.published = list(published)
        self.asked = 0

    def pair(self, key_id: str) -> Ed25519PrivateKey:
        return self.pairs.setdefault(key_id, Ed25519PrivateKey.generate())

    def jwk(self, key_id: str) -> dict[str, object]:
        raw = self.pair(key_id).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        text = base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
        return {"kty": "OKP", "crv": "Ed25519", "kid": key_id, "x": text}

    def document(self) -> bytes:
        self.asked += 1
        return json.dumps({"keys": [self.jwk(one) for one in self.published]}).encode()

    async def awaited_document(self) -> bytes:
        return self.document()

    def sends(self, key_id: str, now: float = NOW) -> Signed:
        pair = self.pair(key_id)
        raw = pair.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
        secret = "whsk_" + base64.b64encode(raw).decode()
        return sign(NAMED, b'{"type":"a"}', secret, id=f"{key_id}.msg", now=now)


def judge(keyset: Keyset, signed: Signed, now: float = NOW) -> str:
    return keyset.verify(signed.headers, signed.body, now=now).secret


def refused(keyset: Keyset, signed: Signed, now: float = NOW) -> Code:
    with pytest.raises(Rejected) as caught:
        judge(keyset, signed, now)
    return caught.value.code


def test_the_document_is_fetched_for_the_first_delivery_and_then_kept() -> None:
    sender = Sender("kid_a")
    keyset = Keyset(NAMED, sender.document)
    assert sender.asked == 0
    assert [judge(keyset, sender.sends("kid_a")) for _ in range(3)] == ["kid_a"] * 3
    assert sender.asked == 1


def test_an_unknown_key_id_has_the_document_fetched_once_more() -> None:
    sender = Sender("kid_a")
    keyset = Keyset(NAMED, sender.document)
    judge(keyset, sender.sends("kid_a"))
    sender.published.append("kid_b")
    later = NOW + 61
    assert judge(keyset, sender.sends("kid_b", later), later) == "kid_b"
    assert sender.asked == 2


def test_made_up_key_ids_cost_one_fetch_in_a_pause() -> None:
    sender = Sender("kid_a")
    keyset = Keyset(NAMED, sender.document, pause=timedelta(seconds=60))
    judge(keyset, sender.sends("kid_a"))
    for later in (NOW, NOW + 59, NOW + 60, NOW + 61, NOW + 119):
        assert refused(keyset, sender.sends("kid_x", later), later) is Code.UNKNOWN_KEY
    assert sender.asked == 2


def test_a_wrong_signature_of_a_known_key_is_no_reason_to_fetch() -> None:
    sender, thief = Sender("kid_a"), Sender()
    keyset = Keyset(NAMED, sender.document, pause=timedelta(0))
    judge(keyset, sender.sends("kid_a"))
    assert refused(keyset, thief.sends("kid_a")) is Code.BAD_SIGNATURE
    assert sender.asked == 1


def test_a_key_that_was_taken_back_is_unknown_after_the_next_fetch() -> None:
    sender = Sender("kid_a")
    keyset = Keyset(NAMED, sender.document, pause=timedelta(0))
    judge(keyset, sender.sends("kid_a"))
    sender.published = ["kid_b"]
    judge(keyset, sender.sends("kid_b"))
    assert refused(keyset, sender.sends("kid_a")) is Code.UNKNOWN_KEY


def test_what_fetch_raises_reaches_the_caller_and_the_old_keys_stay() -> None:
    sender = Sender("kid_a")
    documents: list[Callable[[], bytes]] = [sender.document]

    def fetch() -> bytes:
        return documents[-1]()

    def down() -> bytes:
        raise ConnectionError

    keyset = Keyset(NAMED, fetch, pause=timedelta(0))
    judge(keyset, sender.sends("kid_a"))
    documents.append(down)
    with pytest.raises(ConnectionError):
        judge(keyset, sender.sends("kid_b"))
    assert judge(keyset, sender.sends("kid_a")) == "kid_a"


async def test_the_awaited_keyset_does_the_same() -> None:
    sender = Sender("kid_a")
    keyset = AsyncKeyset(NAMED, sender.awaited_document, pause=timedelta(0), tolerance=None)
    for key_id in ("kid_a", "kid_b"):
        sender.published = ["kid_a", "kid_b"][: 1 + (key_id == "kid_b")]
        signed = sender.sends(key_id)
        found = await keyset.verify(signed.headers, signed.body, now=NOW)
        assert found.secret == key_id
    assert sender.asked == 2


def test_keys_of_other_uses_and_kinds_are_passed_over() -> None:
    sender = Sender()
    good = sender.jwk("kid_a")
    listed = [
        good | {"kid": "kid_enc", "use": "enc"},
        {"kty": "oct", "kid": "kid_k", "k": "AAAA"},
        good | {"kid": "kid_d", "d": good["x"]},
        "no key",
        good,
    ]
    assert [one.key_id for one in keys_of({"keys": listed})] == ["kid_a"]


def test_a_key_ends_when_its_entry_says_so() -> None:
    sender = Sender("kid_a")
    document = {"keys": [sender.jwk("kid_a") | {"not_after": "2025-01-01T00:00:00Z"}]}
    keyset = Keyset(NAMED, lambda: document)
    assert refused(keyset, sender.sends("kid_a")) is Code.UNKNOWN_KEY


@pytest.mark.parametrize(
    "document", [b"", b"{", b"[]", b"{}", {"keys": 5}, {"keys": []}, {"keys": [{}] * 101}, 5, None]
)
def test_a_document_that_is_none_is_refused_with_what_it_must_be(document: Any) -> None:
    keyset = Keyset(NAMED, lambda: document)
    with pytest.raises(UsageError, match="JWKS document must"):
        keyset.verify({}, b"", now=NOW)


def test_a_keyset_needs_a_function_and_a_duration() -> None:
    fetch: Any = "https://example.com/jwks"
    with pytest.raises(UsageError, match="fetch must be a function"):
        Keyset(NAMED, fetch)
    pause: Any = 5
    with pytest.raises(UsageError, match="pause must be"):
        Keyset(NAMED, dict, pause=pause)


def test_the_keys_of_a_document_can_be_given_as_secrets() -> None:
    sender = Sender("kid_a")
    secrets = keys_of(sender.document())
    assert all(isinstance(one, Secret) for one in secrets)
    assert "x" not in repr(secrets[0])
