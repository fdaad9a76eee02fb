"""Every way to sign a delivery that duly knows, each ready to sign and to verify.

The shelf's providers, once for each of their schemes, and providers of our own for the schemes
and the settings that no provider of the shelf uses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import duly
from duly.webhooks import (
    BasicAuth,
    Ecdsa,
    Echo,
    Ed25519,
    Handshake,
    Hmac,
    Jwt,
    Mac,
    NamedFields,
    PlainDigest,
    Provider,
    Secret,
    SharedToken,
    SignedFields,
    Source,
    StandardWebhooks,
    Template,
    UrlAndForm,
    VerifiedDelivery,
    provider_named,
    provider_names,
)
from tests.webhooks.keyring import Keys, edwards_for_webhooks, keys_of

NOW = 1_767_225_600  # the time in the shelf's samples
URL = "https://hooks.example:8443/in?shop=1"
FORM = "application/x-www-form-urlencoded"
COMMON = ("Content-Type", "Authorization", "X-Id", "X-Time", "X-Challenge", "webhook-id")


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request as it reaches the gate."""

    headers: Any  # whatever `verify` takes
    body: bytes
    url: str = URL
    method: str = "POST"


@dataclass(frozen=True, slots=True)
class Case:
    """One scheme of one provider, with its keys."""

    name: str
    scheme: Any
    provider: Provider
    keys: Keys
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    source: Source = field(init=False)
    sender: Provider = field(init=False)

    def __post_init__(self) -> None:
        pinned = replace(self.provider, scheme=self.scheme)
        object.__setattr__(self, "source", Source(self.provider, self.verifier))
        object.__setattr__(self, "sender", pinned)
        if not self.body:
            object.__setattr__(self, "body", self.provider.sample)

    @property
    def verifier(self) -> Secret:
        return Secret(self.keys.verifier, name="only", key_id=KEY_ID if self.named else None)

    @property
    def named(self) -> bool:
        """Whether the sender tells which key it signed with."""
        return isinstance(self.scheme, Jwt) or getattr(self.scheme, "key_id", None) is not None

    def signed(self, body: bytes | None = None, *, now: int = NOW, url: str = URL) -> Arrival:
        """A genuine delivery."""
        raw = self.body if body is None else body
        if isinstance(self.scheme, SharedToken) and self.scheme.place.startswith("query:"):
            return Arrival(dict(self.headers), raw, f"{url}&token={self.keys.signer}")
        signer = Secret(self.keys.signer, key_id=KEY_ID if self.named else None)
        made = duly.sign(
            self.sender, raw, signer, id=f"{KEY_ID}.msg_1", now=now, url=url, headers=self.headers
        )
        return Arrival(made.headers, made.body, made.url or url, made.method)

    def verify(self, arrival: Arrival, source: Source | None = None) -> VerifiedDelivery:
        """What the gate says of an arrival; raises `Rejected`."""
        return duly.verify(
            self.source if source is None else source,
            arrival.headers,
            arrival.body,
            now=NOW,
            url=arrival.url,
            method=arrival.method,
        )


KEY_ID = "key_1"
SAMPLE = b'{"id":"e_1","type":"paid","time":"2026-01-01T00:00:00Z","version":7,"data":{"n":[1]}}'
QUESTIONS = (
    Handshake(
        when={"body:type": "question"},
        reply={"plain": Echo("body:token"), "mac": Mac("body:token", encoding="base64")},
    ),
    Handshake(when={"header:X-Challenge": None}, reply=Echo("header:X-Challenge")),
    Handshake(when={"query:challenge": None}, reply=Mac("query:challenge", digest="sha512")),
)


def own(name: str, scheme: Any, **facts: Any) -> Provider:
    """A provider of our own whose facts are in every kind of place."""
    places = {
        "id": "body:id | header:X-Id | form:id | query:id",
        "type": "body:type + body:action? | form:type",
        "time": "body:time | header:X-Time | form:time",
        "version": "body:version | form:version",
        "form_json": "payload",
        "handshakes": QUESTIONS,
        "sample": SAMPLE,
    }
    return Provider(f"own-{name}", scheme, **{**places, **facts})


OWN: dict[str, Any] = {
    "hmac-sha1-hex": Hmac(header="X-Signature", digest="sha1", prefix="sha1="),
    "hmac-sha512-base64": Hmac(header="X-Signature", digest="sha512", encoding="base64"),
    "hmac-sha384-base64url": Hmac(
        header="X-Signature",
        aliases=("X-Other-Signature",),
        digest="sha384",
        encoding="base64url",
        secret="whsec",
        signed=Template("100% {method} {url} {body}", unescaped=":/"),
    ),
    "hmac-fields": Hmac(
        header="X-Signature",
        fields=NamedFields(signature="s", timestamp="at", separator=";"),
        signed="{header:X-Id}.{timestamp}.{body}",
        unit="us",
        secret="base64",
    ),
    "hmac-many-digests": Hmac(
        header="X-Signature", digest=("sha256", "sha3_256", "blake2b"), prefix="{digest}="
    ),
    "plain-digest": PlainDigest(header="X-Signature", digest="sha512", encoding="base64url"),
    "standard-webhooks-key-id": StandardWebhooks(prefix="Own-", key_id=r"(key_\d+)\."),
    "ed25519-base64": Ed25519(
        header="X-Signature", encoding="base64", prefix="ed=", signed="{header:X-Id}|{body}"
    ),
    "ecdsa-sha384-hex": Ecdsa(
        header="X-Signature", digest="sha384", signed="{timestamp}{body}", timestamp="X-Time",
        unit="ms",
    ),
    "jwt-hs256": Jwt(header="Authorization", algorithms=("HS256",), prefix="Bearer ",
                     body_claim="sha", claims={"iss": "own"}),
    "jwt-es256": Jwt(header="X-Token", algorithms=("ES256",), body_claim="sha"),
    "jwt-rs256": Jwt(header="X-Token", algorithms=("RS256", "ES256"), body_claim="sha"),
    "jwt-eddsa": Jwt(header="X-Token", algorithms=("EdDSA",), body_claim="sha", digest="sha512"),
    "token-header": SharedToken(place="header:X-Token"),
    "token-query": SharedToken(place="query:token"),
    "basic-auth": BasicAuth(),
    "signed-fields": SignedFields(
        items=("items", "item"), fields=("id", "data.n", "type"), signature="mac",
        separator="|", digest="sha512", secret="text",
    ),
    "url-and-form-sha256": Hmac(header="X-Signature", signed=UrlAndForm(), encoding="base64"),
}  # fmt: skip


def shelf() -> list[Case]:
    """Every scheme of every provider on the shelf."""
    found = []
    for name in provider_names():
        provider = provider_named(name)
        for place, scheme in enumerate(provider.schemes):
            label = name if place == 0 else f"{name}-{place + 1}"
            found.append(Case(label, scheme, provider, keys_of(scheme)))
    return found


def workshop() -> list[Case]:
    """The schemes and settings that the shelf does not use."""
    extra = {"X-Id": "e_2"}
    found = [
        Case(name, scheme, own(name, scheme), keys_of(scheme), extra)
        for name, scheme in OWN.items()
    ]
    form = own("form", OWN["url-and-form-sha256"], content_type=FORM, sample=b"b=%2B1&a=x+y&b=2")
    twilio = provider_named("twilio")
    standard, svix = provider_named("standard-webhooks"), provider_named("svix")
    keys = edwards_for_webhooks()
    batch = own("batch", OWN["hmac-sha1-hex"], items="events", item="event", sent_at="body:sent",
                sample=b'{"events":[{"event":{"id":1}},{"event":{"id":"2"}}]}')  # fmt: skip
    form_keys = keys_of(OWN["url-and-form-sha256"])
    return [
        *found,
        Case("form", form.schemes[0], form, form_keys, {}, form.sample),
        Case("batch", batch.schemes[0], batch, keys_of(batch.schemes[0])),
        Case("twilio-json", twilio.schemes[0], twilio, keys_of(twilio.schemes[0]),
             {"Content-Type": "application/json"}, b'{"id":"e_1"}'),
        Case("standard-webhooks-v1a", standard.schemes[0], standard, keys),
        Case("svix-v1a", svix.schemes[0], svix, keys),
    ]  # fmt: skip


@cache
def sample_of(name: str) -> Arrival:
    """The genuine delivery of a case's own body, signed once."""
    return CASES[name].signed()


def names_of(case: Case) -> list[str]:
    """The headers that this case looks at."""
    told = re.findall(r"header:([\w-]+)", repr(case.provider))
    return sorted({*told, *COMMON, *sample_of(case.name).headers})


def signable(case: Case, body: bytes, **options: Any) -> Arrival | None:
    """A genuine delivery of this body; None where the sender could not have made one."""
    try:
        return case.signed(body, **options)
    except (
        duly.errors.UsageError,
        duly.errors.Rejected,
    ):  # no form, or no JSON to put a signature into
        return None


CASES: dict[str, Case] = {case.name: case for case in (*shelf(), *workshop())}
