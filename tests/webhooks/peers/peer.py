"""What a library of a provider must offer to be compared with duly, and what it is given."""

from __future__ import annotations

import base64
import os
import time
from dataclasses import dataclass
from typing import Any, Protocol

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import duly
from duly import Provider
from duly.errors import Rejected
from duly.webhooks import Signed, provider_named
from duly.webhooks.schemes.scheme import Scheme  # noqa: TC001  # named in a helper's signature

LONG = os.environ.get("DULY_LONG") == "1"
SETTINGS = settings(
    max_examples=1000 if LONG else 15,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)


@dataclass(frozen=True, slots=True)
class Keys:
    """What the sender signs with and what the receiver holds; the same where it is a secret."""

    signing: str
    verifying: str


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be sent, before anybody has signed it."""

    body: bytes
    moment: int
    url: str


class Peer(Protocol):
    """A library that signs or verifies what one of duly's providers sends."""

    @property
    def name(self) -> str:
        """The library, and which of its signatures."""

    @property
    def provider(self) -> str:
        """Which of duly's providers it is a library for."""

    @property
    def signer(self) -> Provider:
        """The same provider for `duly.sign`, with the signature that is compared here."""

    @property
    def keys(self) -> st.SearchStrategy[Keys]:
        """Keys as this provider gives them out."""

    @property
    def bodies(self) -> st.SearchStrategy[bytes]:
        """Bodies that the library itself can read."""

    @property
    def reads_the_clock(self) -> bool:
        """Whether the library asks the system for the time, so that only a fresh one will do."""

    @property
    def signs_the_url(self) -> bool:
        """Whether the signature holds for one URL only."""

    def signs(self, request: Request, keys: Keys) -> Signed:
        """The delivery as the library signs it, or as its documentation says where it cannot."""

    def accepts(self, delivery: Signed, keys: Keys, moment: int) -> bool:
        """Whether the library lets a delivery through; whatever it raises is a refusal."""

    def covered(self, delivery: Signed) -> object:
        """What the signature vouches for, so that a change elsewhere is no tampering."""


class Usual:
    """What holds for most libraries."""

    reads_the_clock = False
    signs_the_url = False

    def covered(self, delivery: Signed) -> object:
        return delivery.body


def duly_signs(peer: Peer, request: Request, keys: Keys) -> Signed:
    return duly.sign(peer.signer, request.body, keys.signing, now=request.moment, url=request.url)


def duly_refusal(peer: Peer, delivery: Signed, keys: Keys, moment: float) -> Rejected | None:
    """Why duly lets a delivery not through; None where it does."""
    try:
        duly.verify(
            peer.provider,
            delivery.headers,
            delivery.body,
            keys.verifying,
            now=moment,
            url=delivery.url,
            method=delivery.method,
        )
    except Rejected as refusal:
        return refusal
    return None


def duly_accepts(peer: Peer, delivery: Signed, keys: Keys, moment: float) -> bool:
    return duly_refusal(peer, delivery, keys, moment) is None


def only(provider: str, place: int = 0) -> Provider:
    """A provider with one of its schemes alone: `duly.sign` uses the first."""
    known = provider_named(provider)
    return with_scheme(known, known.schemes[place])


def with_scheme(known: Provider, scheme: Scheme[Any]) -> Provider:
    return Provider(known.name, scheme, content_type=known.content_type)


def same(secret: str) -> Keys:
    """A secret that both sides know."""
    return Keys(signing=secret, verifying=secret)


def moment_for(peer: Peer, chosen: int) -> int:
    """Any time since 1970, or one of the last minutes for a library that reads the clock."""
    return int(time.time()) - chosen % 200 if peer.reads_the_clock else chosen


# Printable, without white space at the ends: duly refuses such a secret, and so do some of them.
# Longer than 64 bytes at times, since HMAC hashes such a key first.
TEXT_SECRETS = st.text(
    st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=80
)

# HMAC fills a key up with zeros: of two keys that differ in nothing else, neither is wrong.
RAW_SECRETS = st.binary(min_size=1, max_size=80).map(lambda raw: raw + b"\x01")

TEXT_KEYS = TEXT_SECRETS.map(same)
WEBHOOK_KEYS = RAW_SECRETS.map(lambda raw: same("whsec_" + base64.b64encode(raw).decode()))
HEX_KEYS = RAW_SECRETS.map(lambda raw: same(raw.hex().upper()))

# All of Unicode but the surrogates, which no UTF-8 body can hold.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
TEXT_BODIES = TEXTS.map(str.encode)
RAW_BODIES = st.one_of(st.binary(max_size=80), TEXT_BODIES)

HOSTS = st.from_regex(r"[a-z][a-z0-9]{0,8}(\.[a-z]{2,5}){1,2}", fullmatch=True)
PORTS = st.one_of(st.just(""), st.integers(1, 65535).map(":{}".format))
PATHS = st.from_regex(r"(/[A-Za-z0-9._~-]{1,6}){1,3}", fullmatch=True)
QUERIES = st.one_of(
    st.just(""), st.from_regex(r"\?[a-z]{1,4}=([A-Za-z0-9]|%2F|%C3%A9){1,6}(&b=1)?", fullmatch=True)
)
SCHEMES = st.sampled_from(["https", "http"])
URLS = st.builds("{}://{}{}{}{}".format, SCHEMES, HOSTS, PORTS, PATHS, QUERIES)
