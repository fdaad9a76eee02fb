"""What a delivery says was signed, taken apart a second time without the gate's code.

A reading is one or several statements, each of which must carry a right signature; a delivery may
be read in more than one way where its sender writes in more than one way. Only the data of the
profiles is shared with the gate.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly.webhooks import BasicAuth, Jwt, SharedToken, SignedFields, StandardWebhooks, UrlAndForm

if TYPE_CHECKING:
    from tests.webhooks.arena import Arrival


@dataclass(frozen=True, slots=True)
class Statement:
    """The parts that are signed, in their order, and the signature in bytes."""

    how: str
    parts: tuple[bytes, ...]
    signature: bytes


Reading = tuple[Statement, ...]


def read(scheme: object, arrival: Arrival) -> set[Reading]:
    """Every way to read an arrival under one scheme."""
    match scheme:
        case StandardWebhooks():
            return standard(scheme, arrival)
        case Jwt():
            return token(scheme, arrival)
        case SharedToken():
            return told(scheme, arrival)
        case BasicAuth():
            return basic(arrival)
        case SignedFields():
            return fields_in_body(scheme, arrival)
        case _:
            return in_header(scheme, arrival)


def header(arrival: Arrival, name: str) -> bytes | None:
    """The one value of a header, as it comes off the wire; None where it is repeated."""
    items = arrival.headers.items() if hasattr(arrival.headers, "items") else arrival.headers
    values: list[bytes] = []
    for key, value in items:
        text = key.decode("latin-1") if isinstance(key, bytes) else key
        if text.lower() == name.lower():
            values += map(wired, value if isinstance(value, list) else [value])
    return values[0] if len(values) == 1 else None


def wired(value: str | bytes) -> bytes:
    """Text in latin-1; what is not latin-1 becomes something that no sender signs."""
    return value if isinstance(value, bytes) else value.encode("latin-1", "backslashreplace")


def raw_signature(encoding: str, text: bytes) -> bytes | None:
    """The bytes behind a signature; hex in either case, base64 in its one spelling."""
    if encoding == "hex":
        return bytes.fromhex(text.decode()) if re.fullmatch(rb"([0-9a-fA-F]{2})+", text) else None
    plain = text.replace(b"-", b"+").replace(b"_", b"/") if encoding == "base64url" else text
    padded = plain + b"=" * (-len(plain) % 4) if encoding == "base64url" else plain
    try:
        raw = base64.b64decode(padded, validate=True)
    except (binascii.Error, ValueError):
        return None
    again = base64.b64encode(raw)
    if encoding == "base64url":
        again = again.rstrip(b"=").replace(b"+", b"-").replace(b"/", b"_")
    return raw if again == text else None


def in_header(scheme: Any, arrival: Arrival) -> set[Reading]:
    """A signature behind a prefix, or in a field of its header."""
    if scheme.only_if is not None:
        name, value = scheme.only_if
        if header(arrival, name) != value.encode():
            return set()
    found = {header(arrival, name) for name in (scheme.header, *scheme.aliases)} - {None}
    if len(found) != 1:
        return set()
    (value,) = found
    digest = getattr(scheme, "digest", "")
    made: set[Reading] = set()
    for name in (digest,) if isinstance(digest, str) else digest:
        for signature, timestamp in candidates(scheme, value or b"", name, arrival):
            raw = raw_signature(scheme.encoding, signature)
            how = f"{type(scheme).__name__} {name}"
            for parts in [] if raw is None else contents(scheme, arrival, timestamp):
                made.add((Statement(how, parts, raw or b""),))
    return made


def candidates(
    scheme: Any, value: bytes, digest: str, arrival: Arrival
) -> list[tuple[bytes, bytes]]:
    """The signatures of a header, each with the time that goes with it."""
    apart = None if scheme.timestamp is None else header(arrival, scheme.timestamp)
    if scheme.fields is None:
        prefix = scheme.prefix.replace("{digest}", digest).encode()
        return [(value[len(prefix) :], apart or b"")] if value.startswith(prefix) else []
    pairs = [
        one.strip(b" ").split(b"=", 1) for one in value.split(scheme.fields.separator.encode())
    ]
    named = [(one[0], one[1]) for one in pairs if len(one) == 2]
    times = [text for name, text in named if name == (scheme.fields.timestamp or "").encode()]
    timestamp = times[0] if len(times) == 1 else apart or b""
    return [(text, timestamp) for name, text in named if name == scheme.fields.signature.encode()]


def contents(scheme: Any, arrival: Arrival, timestamp: bytes) -> list[tuple[bytes, ...]]:
    """The parts of what is signed, in every spelling that the sender uses."""
    if isinstance(scheme.content, UrlAndForm):
        return url_and_form(arrival)
    urls = [arrival.url]
    for escaped in [arrival.url] if scheme.content.unescaped else []:
        urls.append(re.sub("%[0-9a-fA-F]{2}", lambda one: plainly(one[0], scheme), escaped))
    return [
        tuple(part(name, arrival, url, timestamp) for name in re.split(r"(\{[^}]*\})", text))
        for url in urls
        for text in [scheme.content.text]
    ]


def plainly(escape: str, scheme: Any) -> str:
    """A character written plainly, where it is one of those that this sender does not escape."""
    one = chr(int(escape[1:], 16))
    return one if one in scheme.content.unescaped else escape


def part(name: str, arrival: Arrival, url: str, timestamp: bytes) -> bytes:
    known = {
        "{timestamp}": timestamp,
        "{body}": arrival.body,
        "{url}": url.encode("utf-8", "surrogatepass"),
        "{method}": arrival.method.encode("utf-8", "surrogatepass").upper(),
    }
    if name.startswith("{header:"):
        return header(arrival, name[8:-1]) or b""
    return known.get(name, name.encode())


def url_spellings(url: str) -> set[str]:
    """With and without its port, and with its quotes escaped or not: Twilio signs any of them."""
    quoted = {url, url.replace("'", "%27"), url.replace("%27", "'")}
    urls = set(quoted)
    for one in quoted:
        shape = re.fullmatch(r"(?i:(https?))://([^/?#]*?)(:\d+)?([/?#].*)?", one, re.DOTALL)
        if shape is not None:
            scheme, host, port, rest = shape.groups(default="")
            usual = {"http": ":80", "https": ":443"}[scheme.lower()]
            ports = {""} if port else {"", usual}
            urls |= {f"{scheme.lower()}://{host}{port}{rest}" for port in ports}
    return urls


def url_and_form(arrival: Arrival) -> list[tuple[bytes, ...]]:
    """The URL in all its spellings, and the fields; or the URL alone, with the body's hash."""
    urls = url_spellings(arrival.url)
    asked = re.search(r"[?&]bodySHA256=([^&#]*)", arrival.url)
    if asked is not None:
        same = hashlib.sha256(arrival.body).hexdigest() == asked[1]
        fields: list[tuple[bytes, bytes]] | None = [] if same else None
    else:
        fields = form(arrival.body)
    if fields is None:
        return []
    flat = [one for pair in sorted(set(fields)) for one in pair]
    return [(url.encode("utf-8", "surrogatepass"), *flat) for url in urls]


def form(raw: bytes) -> list[tuple[bytes, bytes]]:
    """The fields of a form."""
    pairs = [one.split(b"=", 1) for one in raw.split(b"&") if one]
    return [(unescaped(one[0]), unescaped(one[1] if len(one) == 2 else b"")) for one in pairs]


def unescaped(text: bytes) -> bytes:
    plain = text.replace(b"+", b" ")
    return re.sub(rb"%([0-9a-fA-F]{2})", lambda one: bytes([int(one[1], 16)]), plain)


def standard(scheme: StandardWebhooks, arrival: Arrival) -> set[Reading]:
    names = [scheme.prefix + name for name in ("id", "timestamp", "signature")]
    identifier, timestamp, signatures = (header(arrival, name) for name in names)
    if identifier is None or timestamp is None or signatures is None:
        return set()
    parts = (identifier, b".", timestamp, b".", arrival.body)
    made: set[Reading] = set()
    for word in signatures.split(b" "):
        version, _, text = word.partition(b",")
        how = {b"v1": "Hmac sha256", b"v1a": "Ed25519 "}.get(version)
        raw = raw_signature("base64", text)
        if how is not None and raw is not None:
            made.add((Statement(how, parts, raw),))
    return made


def token(scheme: Jwt, arrival: Arrival) -> set[Reading]:
    """The first two parts of a token, where its claim names the body."""
    value, prefix = header(arrival, scheme.header) or b"", scheme.prefix.encode()
    parts = value[len(prefix) :].split(b".")
    raw = [raw_signature("base64url", one) for one in parts]
    if not value.startswith(prefix) or len(raw) != 3 or any(one is None for one in raw):
        return set()
    try:
        head, claims = (json.loads(one or b"") for one in raw[:2])
        bound = claims[scheme.body_claim] == hashlib.new(scheme.digest, arrival.body).hexdigest()
        algorithm = head["alg"]
    except (ValueError, TypeError, KeyError):
        return set()
    if not bound or algorithm not in scheme.algorithms:
        return set()
    return {(Statement(f"Jwt {algorithm}", (parts[0], b".", parts[1]), raw[2] or b""),)}


def told(scheme: SharedToken, arrival: Arrival) -> set[Reading]:
    kind, _, name = scheme.place.partition(":")
    if kind == "header":
        value = header(arrival, name)
        return set() if value is None else {(Statement("Token", (), value),)}
    url = re.sub("[\t\r\n]", "", arrival.url)  # which no reader of a URL takes for a part of it
    query = url.partition("#")[0].partition("?")[2].encode("utf-8", "surrogatepass")
    values = [value for key, value in form(query) if key == name.encode()]
    return {(Statement("Token", (), values[0]),)} if len(values) == 1 else set()


def basic(arrival: Arrival) -> set[Reading]:
    value = header(arrival, "Authorization") or b""
    raw = raw_signature("base64", value[6:]) if value[:6].lower() == b"basic " else None
    return set() if raw is None else {(Statement("Token", (), raw),)}


def fields_in_body(scheme: SignedFields, arrival: Arrival) -> set[Reading]:
    """One statement for every item of the body."""
    try:
        value = json.loads(arrival.body.removeprefix(b"\xef\xbb\xbf").decode())
    except (ValueError, RecursionError):
        return set()
    listed = value.get(scheme.items[0]) if isinstance(value, dict) else None
    items = [value]
    if isinstance(listed, list):
        items = [one.get(scheme.items[1]) if isinstance(one, dict) else None for one in listed]
    made = []
    for item in items:
        signature = raw_signature("base64", written(item, scheme.signature))
        if signature is None:
            return set()
        parts = tuple(written(item, path) for path in scheme.fields)
        joined = tuple(piece for one in parts for piece in (scheme.separator.encode(), one))[1:]
        made.append(Statement(f"Hmac {scheme.digest}", joined, signature))
    return {tuple(made)} if made else set()


def written(item: Any, path: str) -> bytes:
    """A field as a signature covers it."""
    for key in path.split("."):
        item = item.get(key) if isinstance(item, dict) else None
    if item is None or isinstance(item, dict | list):
        return b""
    text = json.dumps(item) if isinstance(item, bool) else str(item)
    return text.encode("utf-8", "surrogatepass")
