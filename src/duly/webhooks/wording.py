"""Schemes, handshakes and durations as a person would say them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.webhooks import (
    BasicAuth,
    Ecdsa,
    Echo,
    Ed25519,
    Handshake,
    Hmac,
    Jwt,
    Mac,
    PlainDigest,
    SharedToken,
    SignedFields,
    StandardWebhooks,
    Template,
    UrlAndForm,
)

if TYPE_CHECKING:
    from datetime import timedelta

    from duly.webhooks.schemes.scheme import Scheme
    from duly.webhooks.schemes.signature import Signature
    from duly.webhooks.schemes.template import Content

UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))
TIME_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds"}
METHODS: dict[type, str] = {
    Ed25519: "Ed25519",
    StandardWebhooks: "Standard Webhooks",
    SharedToken: "shared token",
    BasicAuth: "basic authentication",
}
SECRETS = {"text": "as it stands", "hex": "in hex", "base64": "in base64", "whsec": "`whsec_…`"}


def duration(time: timedelta) -> str:
    """A duration in whole units: ``7 hours 6 minutes``."""
    left = round(time.total_seconds())
    words = []
    for unit, seconds in UNITS:
        count, left = divmod(left, seconds)
        if count:
            words.append(f"{count} {unit}" if count == 1 else f"{count} {unit}s")
    return " ".join(words) or "0 seconds"


def either(words: list[str]) -> str:
    """Several words of which one holds: ``a, b or c``."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def code(text: str) -> str:
    """A text as a program would write it."""
    return f"`{text}`"


def describe_method(scheme: Scheme[Any]) -> str:
    """How a signature is made."""
    match scheme:
        case Hmac() | SignedFields():
            return "HMAC-" + either(digests(scheme.digest))
        case PlainDigest():
            return f"{either(digests(scheme.digest))} of the secret and"
        case Ecdsa():
            return f"ECDSA-{either(digests(scheme.digest))}"
        case Jwt():
            return f"JWT ({either(list(scheme.algorithms))})"
        case _:
            return METHODS.get(type(scheme), type(scheme).__name__)


def digests(names: str | tuple[str, ...]) -> list[str]:
    """One hash or several, in capitals."""
    return [name.upper() for name in ((names,) if isinstance(names, str) else names)]


def describe_content(scheme: Scheme[Any]) -> str:
    """What a signature covers; nothing for a token that is only shown."""
    match scheme:
        case Hmac() | PlainDigest() | Ed25519() | Ecdsa():
            return describe_template(scheme.signed)
        case StandardWebhooks():
            return code("{id}.{timestamp}.{body}")
        case SignedFields():
            return f"{len(scheme.fields)} fields of the body"
        case Jwt():
            return "nothing but itself" if scheme.body_claim is None else "the digest of the body"
        case _:
            return ""


def describe_template(signed: str | Content) -> str:
    """The signed bytes: the raw body, a template, or what Twilio makes of a form."""
    match signed:
        case "{body}" | Template(text="{body}"):
            return "the raw body"
        case str():
            return code(signed)
        case Template():
            return code(signed.text)
        case UrlAndForm():
            return "the URL and the sorted fields of the form"
        case _:
            return type(signed).__name__


def in_short(scheme: Scheme[Any]) -> str:
    """A scheme in a cell of a table."""
    covered = describe_content(scheme)
    joint = " " if isinstance(scheme, PlainDigest) else " over "
    return (
        f"{describe_method(scheme)}{joint}{covered}"
        if covered
        else f"{describe_method(scheme)}, which signs nothing"
    )


def in_full(scheme: Scheme[Any]) -> str:
    """A scheme with everything that a reader needs to find it in a request."""
    parts = [
        in_short(scheme),
        f"in {describe_signature_location(scheme)}",
        *describe_details(scheme),
    ]
    if scheme.legacy:
        parts.append("the older way, refused with `legacy=False`")
    return "; ".join(parts)


def describe_signature_location(scheme: Scheme[Any]) -> str:
    """Where the signature is."""
    match scheme:
        case Hmac() | PlainDigest() | Ed25519() | Ecdsa():
            names = either([code(one) for one in (scheme.header, *scheme.aliases)])
            return f"the header {names}{describe_encoding(scheme)}"
        case StandardWebhooks():
            return f"the header {code(scheme.prefix + 'signature')}, as `v1,…` or `v1a,…`"
        case SharedToken():
            return code(scheme.place)
        case SignedFields():
            return f"{code(scheme.signature)} of each item"
        case _:
            return scheme.describe_location()


def describe_encoding(scheme: Signature[Any]) -> str:
    """How the signature is written there."""
    words = f", {scheme.encoding}"
    if scheme.fields is not None:
        return f"{words}, field {code(scheme.fields.signature + '=')}"
    return f"{words} behind {code(scheme.prefix)}" if scheme.prefix else words


def describe_details(scheme: Scheme[Any]) -> list[str]:
    """The signed time, the condition and the form of the secret."""
    match scheme:
        case Hmac():
            return [*describe_timing(scheme), f"the secret {SECRETS[scheme.secret]}"]
        case PlainDigest():
            return [*describe_timing(scheme), "the secret as it stands"]
        case Ed25519() | Ecdsa():
            return [*describe_timing(scheme), "the key is a public one"]
        case StandardWebhooks():
            times = f"the time in {code(scheme.prefix + 'timestamp')}"
            return [times, "the secret `whsec_…`, or the public key `whpk_…`"]
        case SignedFields():
            fields = ", ".join(map(code, scheme.fields))
            return [f"the fields are {fields}", f"the secret {SECRETS[scheme.secret]}"]
        case _:
            return []


def describe_timing(scheme: Signature[Any]) -> list[str]:
    """Where the signed time is, and what must hold for this scheme to be meant."""
    words = []
    if scheme.timestamp is not None:
        words.append(f"the time in {code(scheme.timestamp)}, in {TIME_UNITS[scheme.unit]}")
    elif scheme.fields is not None and scheme.fields.timestamp is not None:
        words.append(f"the time in the field {code(scheme.fields.timestamp + '=')}")
    if scheme.only_if is not None:
        words.append(f"where {code(scheme.only_if[0])} is {code(scheme.only_if[1])}")
    return words


def signs_time(scheme: Scheme[Any]) -> bool:
    """Whether a signature of this kind says when it was made."""
    match scheme:
        case Hmac() | PlainDigest() | Ed25519() | Ecdsa():
            return bool(describe_timing(scheme)) and "{timestamp}" in describe_content(scheme)
        case _:
            return isinstance(scheme, StandardWebhooks | Jwt)


def describe_handshake(question: Handshake) -> str:
    """A question and its answer."""
    asked = " and ".join(
        f"{code(place)} is there" if value is None else f"{code(place)} is {code(str(value))}"
        for place, value in question.when.items()
    )
    if question.unless is not None:
        asked += f" without {code(question.unless)}"
    where = "where" if question.method == "POST" else f"for a {question.method} request where"
    proof = "" if question.signed else " (not signed)"
    return f"{where} {asked}{proof}, the answer is {question.status}{describe_reply(question)}"


def describe_reply(question: Handshake) -> str:
    """What an answer holds."""
    match question.reply:
        case None:
            return " and empty"
        case Echo() | Mac() as whole:
            return f" with {describe_member(whole)}"
        case members:
            listed = [f"{code(name)}: {describe_member(value)}" for name, value in members.items()]
            return f" with {', '.join(listed)}"


def describe_member(value: object) -> str:
    """One member of an answer."""
    match value:
        case Echo():
            return f"what {code(value.place)} holds"
        case Mac():
            return f"the HMAC-{value.digest.upper()}, {value.encoding}, of {code(value.place)}"
        case _:
            return code(str(value))
