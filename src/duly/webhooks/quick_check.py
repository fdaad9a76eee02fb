"""Signature checks made ready at registration: the common case of each scheme, inlined.

A check finds nothing that the scheme itself would not find: it knows the secret that signed a
delivery, or it knows nothing, and then the scheme gives the verdict and its reason.
"""

from __future__ import annotations

import hashlib
from hmac import compare_digest
from math import inf
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from duly.core.errors import Rejected
from duly.webhooks.schemes.encodings import UNITS, base64_text
from duly.webhooks.schemes.hmac import Hmac, SharedKey
from duly.webhooks.schemes.scheme import MOST_CANDIDATES
from duly.webhooks.schemes.shared_token import SharedToken
from duly.webhooks.schemes.standard_webhooks import StandardWebhooks, is_id
from duly.webhooks.schemes.template import PLACEHOLDER, Template

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from hashlib import _Hash

    from duly.webhooks.schemes.scheme import LoadedKey, Match, Scheme
    from duly.webhooks.schemes.signature import NamedFields
    from duly.webhooks.source import Source

    # The signature's header, the timestamp's and the id's, where they are headers; body and time.
    Check: TypeAlias = Callable[[bytes, bytes, bytes, bytes, float], Match | None]
    # A secret's name, the second it ends, and the two hashes of its HMAC, begun with the key.
    BegunKey: TypeAlias = tuple[str, float | None, _Hash, _Hash]
    # What stands before a signature, and how it is written.
    Form: TypeAlias = tuple[bytes, Callable[[bytes], bytes]]

# What a template may sign, without a timestamp and with one.
SIGNED: Final = (["body"], ["timestamp", "body"])
# What the key is combined with in the two hashes of an HMAC.
INNER: Final = bytes(number ^ 0x36 for number in range(256))
OUTER: Final = bytes(number ^ 0x5C for number in range(256))


class QuickCheck(NamedTuple):
    """How one scheme of a source is checked in one step.

    ``signature`` lists the names of the header that holds it, of which one may be sent.
    """

    scheme: Scheme[Any]
    keys: Sequence[LoadedKey[Any]]
    signature: tuple[str, ...]
    stamp: str | None
    identifier: str | None
    check: Check


def compile_check(
    source: Source, scheme: Scheme[Any], keys: Sequence[LoadedKey[Any]]
) -> QuickCheck | None:
    """The check of one scheme; None where only the scheme itself can do it."""
    if not all(isinstance(held.key, SharedKey) for held in keys):
        return None
    if type(scheme) is StandardWebhooks and scheme.pattern is None:
        names = ((scheme.signature_header,), scheme.time_header, scheme.id_header)
        return QuickCheck(scheme, keys, *names, check_standard(source, keys))
    if type(scheme) is SharedToken and scheme.selector.kind == "header":
        return QuickCheck(scheme, keys, (scheme.selector.name,), None, None, check_token(keys))
    if type(scheme) is Hmac and has_common_form(scheme):
        check = check_fields if scheme.fields is not None else check_header
        made = check(source, scheme, keys)
        return QuickCheck(scheme, keys, scheme.names, scheme.time_header, None, made)
    return None


def has_common_form(scheme: Hmac) -> bool:
    """Whether one digest signs the body, alone or behind a timestamp."""
    content, fields = scheme.content, scheme.fields
    timed = scheme.time_header is not None or (fields is not None and fields.timestamp is not None)
    return (
        len(scheme.prefixes) == 1
        and scheme.only_if is None
        and scheme.encoding in ("hex", "base64")
        and type(content) is Template
        and not content.unescaped
        and not content.has_adjacent_timestamp
        and PLACEHOLDER.findall(content.text) == SIGNED[timed]
    )


def pattern_of(scheme: Hmac) -> bytes:
    """What is signed, with a place for the timestamp, where it is signed, and one for the body."""
    assert isinstance(scheme.content, Template)  # noqa: S101  # asked by the caller
    literals = PLACEHOLDER.split(scheme.content.text)[::2]
    return b"%b".join(one.encode().replace(b"%", b"%%") for one in literals)


def begun_keys(keys: Sequence[LoadedKey[Any]], digest: str) -> tuple[BegunKey, ...]:
    """Each key with its HMAC begun, so that copies of that state are all a delivery needs."""
    return tuple(
        (held.secret.name, end_of(held), *begun_hashes(held.key.raw, digest)) for held in keys
    )


def begun_hashes(raw: bytes, digest: str) -> tuple[_Hash, _Hash]:
    """The inner and the outer hash of an HMAC (RFC 2104), each begun with the key.

    `hmac.HMAC` would do; its methods are Python, and take half as long again as the hashes.
    """
    inner, outer = hashlib.new(digest), hashlib.new(digest)
    size = inner.block_size
    key = (raw if len(raw) <= size else hashlib.new(digest, raw).digest()).ljust(size, b"\0")
    inner.update(key.translate(INNER))
    outer.update(key.translate(OUTER))
    return inner, outer


def end_of(held: LoadedKey[Any]) -> float | None:
    """The second after which a secret may no longer be used."""
    not_after = held.secret.not_after
    return None if not_after is None else not_after.timestamp()


def match_secret(
    keys: Sequence[BegunKey], content: bytes, candidates: Sequence[bytes], form: Form, now: float
) -> str | None:
    """The first secret whose HMAC is among the candidates; every one is compared with each."""
    found = None
    put_first, encoded = form
    for name, end, inner, outer in keys:
        if end is not None and now > end:
            continue
        below, mac = inner.copy(), outer.copy()
        below.update(content)
        mac.update(below.digest())
        expected = put_first + encoded(mac.digest())
        for candidate in candidates:
            if compare_digest(expected, candidate) and found is None:
                found = name
    return found


def allowed_ages(source: Source) -> tuple[float, float]:
    """How far ahead of us a signed time may be, and how old."""
    return (inf, inf) if source.tolerance is None else (source.ahead, source.tolerance)


def stamp_reader(source: Source, unit: str) -> Callable[[bytes, float], float | None]:
    """What reads a timestamp as seconds since 1970; None for what is none, and for a wrong age."""
    per_second, digits = UNITS[unit]
    ahead, tolerance = allowed_ages(source)

    def read(stamp: bytes, now: float) -> float | None:
        if not stamp.isdigit() or len(stamp) > digits:
            return None
        sent = int(stamp) / per_second
        return sent if -ahead <= now - sent <= tolerance else None

    return read


def check_fields(source: Source, scheme: Hmac, keys: Sequence[LoadedKey[Any]]) -> Check:
    """The check of signatures among named fields, ``t=…,v1=…``."""
    assert scheme.fields is not None  # noqa: S101  # asked by the caller
    begun, read = begun_keys(keys, scheme.prefixes[0][0]), fields_reader(scheme.fields)
    pattern, read_stamp = pattern_of(scheme), stamp_reader(source, scheme.unit)
    form: Form = (b"", scheme.encoded)
    in_hex = scheme.encoding == "hex"
    own_header, timed = scheme.time_header is not None, b"%b" in pattern.replace(b"%b", b"", 1)

    def check(header: bytes, stamp: bytes, _: bytes, body: bytes, now: float) -> Match | None:
        candidates, written = read(header)
        if in_hex:
            candidates = [one.lower() for one in candidates]
        if not timed:
            found = match_secret(begun, pattern % body, candidates, form, now)
            return None if found is None else (found, None)
        written = stamp if own_header else written
        sent = read_stamp(written, now)
        if sent is None:
            return None
        found = match_secret(begun, pattern % (written, body), candidates, form, now)
        return None if found is None else (found, sent)

    return check


def fields_reader(fields: NamedFields) -> Callable[[bytes], tuple[list[bytes], bytes]]:
    """The candidates and the timestamp of a header; no candidates where it is not as it should."""
    name, time_name, separator = fields.names
    start = b"" if time_name in (None, name) else time_name + b"="
    middle = separator + name + b"="
    length, parse = len(start), fields.parse

    def read(header: bytes) -> tuple[list[bytes], bytes]:
        written, _, signature = header.partition(middle)
        stamp = written[length:]
        if start and signature.isalnum() and stamp.isdigit() and written.startswith(start):
            return [signature], stamp
        try:
            candidates, found = parse(header)
        except Rejected:
            return [], b""
        return (candidates if len(candidates) <= MOST_CANDIDATES else []), found or b""

    return read


def check_header(source: Source, scheme: Hmac, keys: Sequence[LoadedKey[Any]]) -> Check:
    """The check of a header that is one signature, behind a prefix or without."""
    digest, prefix = scheme.prefixes[0]
    begun, pattern = begun_keys(keys, digest), pattern_of(scheme)
    read_stamp = stamp_reader(source, scheme.unit)
    in_hex = scheme.encoding == "hex"
    form: Form = (prefix.lower() if in_hex else prefix, scheme.encoded)

    def check_plain(header: bytes, _: bytes, __: bytes, body: bytes, now: float) -> Match | None:
        if not header.startswith(prefix):
            return None
        candidate = header.lower() if in_hex else header
        content = body if pattern == b"%b" else pattern % body
        found = match_secret(begun, content, (candidate,), form, now)
        return None if found is None else (found, None)

    def check_timed(header: bytes, stamp: bytes, _: bytes, body: bytes, now: float) -> Match | None:
        sent = read_stamp(stamp, now)
        if sent is None or not header.startswith(prefix):
            return None
        candidate = header.lower() if in_hex else header
        found = match_secret(begun, pattern % (stamp, body), (candidate,), form, now)
        return None if found is None else (found, sent)

    return check_plain if scheme.time_header is None else check_timed


def check_standard(source: Source, keys: Sequence[LoadedKey[Any]]) -> Check:
    """The check of Standard Webhooks, v1."""
    begun, read_stamp = begun_keys(keys, "sha256"), stamp_reader(source, "s")
    form: Form = (b"v1,", base64_text)

    def check(
        header: bytes, stamp: bytes, identifier: bytes, body: bytes, now: float
    ) -> Match | None:
        sent, words = read_stamp(stamp, now), header.split(b" ")
        if sent is None or len(words) > MOST_CANDIDATES or not is_id(identifier):
            return None
        found = match_secret(begun, b"%b.%b.%b" % (identifier, stamp, body), words, form, now)
        return None if found is None else (found, sent)

    return check


def check_token(keys: Sequence[LoadedKey[Any]]) -> Check:
    """The check of a token that is only shown."""
    shown = tuple((held.secret.name, end_of(held), held.key.raw) for held in keys)

    def check(header: bytes, _: bytes, __: bytes, ___: bytes, now: float) -> Match | None:
        found = None
        for name, end, raw in shown:
            current = end is None or now <= end
            if current and compare_digest(raw, header) and found is None:
                found = name
        return None if found is None else (found, None)

    return check


class QuickSignature(NamedTuple):
    """The check of a source's first scheme, for headers as a caller of `verify` has them.

    Both find a match or nothing: ``of_headers`` in a mapping that a caller passed, ``of_fields`` in
    the headers of a `Delivery`.
    """

    scheme: Scheme[Any]
    keys: Sequence[LoadedKey[Any]]
    of_headers: Callable[[Any, bytes, float], Match | None]
    of_fields: Callable[[Mapping[str, Any], bytes, float], Match | None]


def find_nothing(_: object, __: bytes, ___: float) -> None:
    """The check of a scheme that has none."""


def quick_signature(source: Source) -> QuickSignature:
    """The check of the scheme that counts wherever its signature is there."""
    scheme, keys = source.schemes[0]
    quick = compile_check(source, scheme, keys)
    if quick is None or len(quick.signature) > 1 or source.provider.sent_at is not None:
        return QuickSignature(scheme, keys, find_nothing, find_nothing)
    return QuickSignature(scheme, keys, headers_check(quick), fields_check(quick))


def fields_check(quick: QuickCheck) -> Callable[[Mapping[str, Any], bytes, float], Match | None]:
    """The check with headers by lower-case name."""
    (name,), check = quick.signature, quick.check
    stamp_name, id_name = quick.stamp, quick.identifier

    def of_fields(fields: Mapping[str, Any], body: bytes, now: float) -> Match | None:
        try:
            header = fields[name].encode("latin-1")
            stamp = b"" if stamp_name is None else fields[stamp_name].encode("latin-1")
            identifier = b"" if id_name is None else fields[id_name].encode("latin-1")
        except (KeyError, AttributeError, UnicodeEncodeError):
            return None
        return check(header, stamp, identifier, body, now)

    return of_fields


def headers_check(quick: QuickCheck) -> Callable[[Any, bytes, float], Match | None]:
    """The check with headers as they were passed: a dict with names in any case, text or bytes.

    The names that are looked for begin alike. Where that beginning is found as often as there are
    names, and each name is there, no header is there twice.
    """
    (name,) = quick.signature
    names = [one for one in (name, quick.stamp, quick.identifier) if one is not None]
    start = commonprefix(names)  # noqa: RUF071  # the letters of names, not the parts of paths
    count, of_fields = len(names), fields_check(quick)
    spelled = tuple((one, one.title()) for one in names)

    def of_headers(headers: Any, body: bytes, now: float) -> Match | None:
        if headers.__class__ is not dict:
            return None
        try:
            if "\n".join(headers).lower().count(start) != count:
                return None
        except TypeError:  # names in bytes
            return None
        get = headers.get
        return of_fields({lower: get(title) or get(lower) for lower, title in spelled}, body, now)

    return of_headers
