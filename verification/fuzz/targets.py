"""What is tried with every input: a delivery is made of it, judged, and the judgement checked.

Half of the inputs are bodies that are signed with a known key, so that the readers behind the
signature are reached. Of the rest, some change a genuine delivery and some are headers of their
own; those may only be verified where the oracle, which shares no code with the gate, finds the
signature right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.webhooks.arena import CASES, Arrival, Case, names_of, sample_of, signable
from tests.webhooks.hostile import BODIES, HEADERS, VALUES, raw
from tests.webhooks.judgement import excused, outcome
from tests.webhooks.oracle import genuine

from duly.webhooks import (
    BasicAuth,
    Ecdsa,
    Ed25519,
    Hmac,
    Jwt,
    PlainDigest,
    SharedToken,
    SignedFields,
    StandardWebhooks,
    UrlAndForm,
    VerifiedDelivery,
)
from verification.fuzz.script import Script

Target = Callable[[bytes], None]

KINDS: dict[str, type] = {
    "basic-auth": BasicAuth,
    "ecdsa": Ecdsa,
    "ed25519": Ed25519,
    "hmac": Hmac,
    "jwt": Jwt,
    "plain-digest": PlainDigest,
    "shared-token": SharedToken,
    "signed-fields": SignedFields,
    "standard-webhooks": StandardWebhooks,
}
URL_AND_FORM = "url-and-form"
NAMES = sorted([*KINDS, URL_AND_FORM])
# Reading a private key of RSA takes longer than everything else together.
SIGNED_ONCE = {"jwt-rs256"}


class Broken(Exception):
    """A promise that an input breaks."""


def cases_of(name: str) -> list[Case]:
    """The cases of the arena that are signed with this scheme."""
    if name == URL_AND_FORM:
        return [case for case in CASES.values() if signs_url_and_form(case)]
    return [
        case
        for case in CASES.values()
        if isinstance(case.scheme, KINDS[name]) and not signs_url_and_form(case)
    ]


def signs_url_and_form(case: Case) -> bool:
    """Whether a case signs as Twilio does; that is a content rather than a scheme."""
    return isinstance(getattr(case.scheme, "content", None), UrlAndForm)


def target(name: str) -> Target:
    """The function that takes the fuzzer's bytes."""
    cases = cases_of(name)
    headers = {case.name: names_of(case) for case in cases}

    def tried(data: bytes) -> None:
        script = Script(data)
        case = script.choice(cases)
        way = script.number() % 4
        if way < 2 and case.name not in SIGNED_ONCE:
            try_signed(case, script)
        elif way < 3:
            try_unsigned(case, changed(case, script))
        else:
            try_unsigned(case, invented(headers[case.name], script))

    return tried


def try_signed(case: Case, script: Script) -> None:
    """A genuine delivery is verified, whatever its body, and can be read."""
    told = {one.lower() for one in sample_of(case.name).headers}
    extra = {
        name: script.chunk().decode("latin-1")
        for name in ("X-Challenge", "X-Time", "X-GitHub-Event", "X-Shopify-Triggered-At")
        if script.number() % 8 == 1 and name.lower() not in told
    }
    arrival = signable(case, script.rest())
    if arrival is None:
        return
    arrival = replace(arrival, headers={**arrival.headers, **extra})
    judged = outcome(case, arrival)
    if isinstance(judged, VerifiedDelivery):
        demand(genuine(case, arrival), "the oracle does not know a signature of our own")
    else:
        demand(judged.code in excused(case, arrival), f"a genuine delivery was rejected: {judged}")


def try_unsigned(case: Case, arrival: Arrival) -> None:
    """What nobody signed is rejected, unless it says what was signed in another spelling."""
    judged = outcome(case, arrival)
    if isinstance(judged, VerifiedDelivery):
        demand(genuine(case, arrival), f"verified without a right signature: {arrival!r}")


def demand(kept: bool, promise: str) -> None:
    """Break off where a promise is not kept."""
    if not kept:
        raise Broken(promise)


def changed(case: Case, script: Script) -> Arrival:
    """A genuine delivery with some changes."""
    arrival = sample_of(case.name)
    pairs: list[tuple[Any, Any]] = list(arrival.headers.items())
    for _ in range(1 + script.number() % 3):
        place = script.number() % (len(pairs) + 4)
        if place < len(pairs):
            name, value = pairs[place]
            text = value.encode("latin-1") if isinstance(value, str) else value
            pairs[place] = (name, edited(text, script))
        elif place == len(pairs):
            arrival = replace(arrival, body=edited(arrival.body, script))
        elif place == len(pairs) + 1:
            arrival = replace(arrival, url=text_of(edited(bytes_of(arrival.url), script)))
        elif place == len(pairs) + 2 and pairs:
            pairs.append(script.choice(pairs))
        else:
            arrival = replace(arrival, method=text_of(script.chunk()))
    return replace(arrival, headers=pairs)


def edited(before: bytes, script: Script) -> bytes:
    """Bytes with a piece of them replaced, or taken out."""
    place = script.number(2) % (len(before) + 1)
    removed = script.number()
    return before[:place] + script.chunk() + before[place + removed :]


def invented(names: list[str], script: Script) -> Arrival:
    """Headers, a body, a URL and a method from nowhere."""
    pairs: list[tuple[Any, Any]] = []
    for _ in range(script.number() % 8):
        name: Any = script.choice([*names, None])
        name = script.chunk() if name is None else name
        as_text = script.number() % 2
        value: Any = script.chunk()
        pairs.append((name, text_of(value) if as_text else value))
    url = text_of(script.chunk()) or "https://hooks.example/in"
    return Arrival(pairs, script.rest(), url, script.choice(["POST", "GET", "post", ""]))


def text_of(raw_text: bytes) -> str:
    """Text with characters of every kind, lone surrogates among them."""
    return raw_text.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    """The way back."""
    return text.encode("utf-8", "surrogateescape")


def seeds(name: str) -> list[bytes]:
    """Inputs to begin with: hostile bodies to sign, hostile headers, and small changes."""
    bodies = [*BODIES, *map(raw, VALUES)]
    found = [
        bytes([place, 0, 0, 0, 0, 0]) + body[:2000]
        for place, case in enumerate(cases_of(name))
        for body in (case.body, *bodies[place :: len(cases_of(name))])
    ]
    for place, case in enumerate(cases_of(name)):
        parts = len(sample_of(case.name).headers) + 2
        found += [bytes([place, 2, 0, part, 0, 0, 255, 0]) for part in range(parts)]
    for place, header in enumerate(HEADERS):
        text = header.encode("utf-8", "surrogatepass") if isinstance(header, str) else b"x"
        short = text[:200]
        found.append(bytes([place, 2, 1, place, 0, place, 1, len(short)]) + short)
        found.append(bytes([place, 3, 2, place, 1, len(short)]) + short)
    return found
