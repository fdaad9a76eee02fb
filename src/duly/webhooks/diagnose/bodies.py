"""The body: what parsers, frameworks and gateways make of it before it is verified, undone."""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, quote_plus, urlencode

from duly.webhooks.diagnose.json_spellings import spellings_of_json
from duly.webhooks.selectors import FORM
from duly.webhooks.strict_json import BYTE_ORDER_MARK, UnreadableBody, form_of, parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly.webhooks.diagnose.case import Guess, RejectedCase

# The escapes of a Python bytes literal.
ESCAPE: Final = re.compile(rb"\\(x[0-9a-f]{2}|[\\'nrt])")
ESCAPED: Final = {b"\\": b"\\", b"'": b"'", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
REPLACED: Final = "\ufffd".encode()
GZIP: Final = b"\x1f\x8b"
RAW: Final = "pass the raw bytes"


def value_of(case: RejectedCase) -> Any:
    """The body as JSON; None where it is none, or null."""
    try:
        return parse_json(case.delivery.body, case.source.limits).value
    except UnreadableBody:
        return None


def rewrite_json(case: RejectedCase) -> Iterator[bytes]:
    """The value of a body in other writings."""
    value = value_of(case)
    if isinstance(value, dict | list):
        yield from spellings_of_json(value)


def vary_byte_order_mark(case: RejectedCase) -> Iterator[bytes]:
    """With the mark, and without."""
    body = case.delivery.body
    yield body.removeprefix(BYTE_ORDER_MARK)
    yield BYTE_ORDER_MARK + body


def vary_trailing_space(case: RejectedCase) -> Iterator[bytes]:
    """With and without white space at the end."""
    body = case.delivery.body
    yield from (body + b"\n", body + b"\r\n", body.removesuffix(b"\n"), body.removesuffix(b"\r\n"))
    yield from (body.rstrip(), body.strip())


def vary_line_ends(case: RejectedCase) -> Iterator[bytes]:
    """With the line ends of one system, and of the other."""
    plain = case.delivery.body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    yield from (plain, plain.replace(b"\n", b"\r\n"), plain.removesuffix(b"\n") + b"\r\n")
    yield plain.removesuffix(b"\n").replace(b"\n", b"\r\n")


# Read as the first, written as the second; what went wrong was the reverse.
CHARSETS: Final = (
    (("latin-1", "strict"), ("utf-8", "strict")),
    (("utf-8", "strict"), ("latin-1", "strict")),
    (("cp1252", "strict"), ("utf-8", "strict")),
    (("utf-8", "strict"), ("cp1252", "strict")),
    (("utf-16", "strict"), ("utf-8", "strict")),
    (("utf-8", "surrogatepass"), ("utf-8", "surrogateescape")),
    (("latin-1", "strict"), ("utf-8", "surrogateescape")),
)


def undo_charset(case: RejectedCase) -> Iterator[bytes]:
    """Each mistake with character sets, undone."""
    for (read, mercy), (write, grace) in CHARSETS:
        try:
            yield case.delivery.body.decode(read, mercy).encode(write, grace)
        except UnicodeError:
            continue
    try:  # pairs of surrogates that were written one by one
        text = case.delivery.body.decode("utf-8", "surrogatepass")
        yield text.encode("utf-16", "surrogatepass").decode("utf-16").encode()
    except UnicodeError:
        return


def undo_form_decoding(case: RejectedCase) -> Iterator[bytes]:
    """The form that a decoded body was."""
    body = case.delivery.body
    field = case.source.provider.form_json
    if field is not None:
        yield from (f"{field}=".encode() + write(body).encode() for write in (quote_plus, quote))
    stated = (case.delivery.header_text("content-type") or FORM).partition(";")[0].strip().lower()
    pairs = pairs_of(case) if stated == FORM else []
    for write, safe in ((quote_plus, ""), (quote, ""), (quote_plus, "*"), (quote_plus, "*@")):
        for mercy in ("strict", "surrogatepass"):
            try:
                yield urlencode(pairs, safe=safe, quote_via=write, errors=mercy).encode()
            except UnicodeError:
                continue


def pairs_of(case: RejectedCase) -> list[tuple[str, str]]:
    """The fields of a form that was decoded as a whole, taken apart, or turned into JSON."""
    value = value_of(case)
    if isinstance(value, dict):
        return [(name, one) for name, one in value.items() if isinstance(one, str)]
    text = case.delivery.body.decode("utf-8", "replace")
    if text.isascii() and ("%" in text or "+" in text):
        try:
            return form_of(case.delivery.body)
        except UnreadableBody:
            return []
    return [(name, one) for name, _, one in (part.partition("=") for part in text.split("&"))]


def unwrap_envelope(case: RejectedCase) -> Iterator[bytes]:
    """The body inside what a gateway made of it."""
    body = case.delivery.body
    yield from decode_base64(body)
    value = value_of(case)
    inner = value.get("body") if isinstance(value, dict) else value
    if isinstance(inner, str):
        raw = inner.encode("utf-8", "replace")
        yield from (raw, *decode_base64(raw))
    if body[:2] in (b"b'", b'b"') and body[-1:] == body[1:2]:
        yield ESCAPE.sub(unescape_byte, body[2:-1])


def decode_base64(body: bytes) -> Iterator[bytes]:
    """What base64 stands for."""
    try:
        yield base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        return


def unescape_byte(found: re.Match[bytes]) -> bytes:
    """One escape of a literal as the byte that it is."""
    code = found.group(1)
    return bytes.fromhex(code[1:].decode()) if code[:1] == b"x" else ESCAPED[code]


def decompress_body(case: RejectedCase) -> Iterator[bytes]:
    """What is inside a body that is still compressed, as far as a body may be long."""
    if case.delivery.body.startswith(GZIP):
        try:
            yield zlib.decompressobj(31).decompress(case.delivery.body, case.source.limits.size)
        except zlib.error:
            return


# What may have happened to a body, undone, and what to say when that makes the signature good.
BODY_REPAIRS: Final[tuple[tuple[Callable[[RejectedCase], Iterator[bytes]], str], ...]] = (
    (vary_byte_order_mark, f"gained or lost a byte order mark on its way: {RAW}"),
    (vary_trailing_space, f"gained or lost a line break or white space at its end: {RAW}"),
    (vary_line_ends, f"has other line ends than what was signed: {RAW}, and open no file as text"),
    (rewrite_json, f"was parsed and written again before it was verified: {RAW}"),
    (undo_charset, f"was decoded and encoded again in another character set: {RAW}"),
    (undo_form_decoding, f"is a form that was decoded before it was verified: {RAW}"),
    (
        unwrap_envelope,
        "is still wrapped by a gateway (base64, a JSON envelope or a literal): unwrap it",
    ),
    (decompress_body, "is still compressed: decompress it before it is verified"),
)


def suspect_changed_body(case: RejectedCase) -> Iterator[Guess]:
    """Everything above, one after the other."""
    tried = {case.delivery.body}
    for undo, what in BODY_REPAIRS if any(case.present_schemes()) else ():
        for body in undo(case):
            if body not in tried:
                tried.add(body)
                yield case.trial(f"The body {what}.", body=body)


def suspect_empty_body(case: RejectedCase) -> Iterator[Guess]:
    """Nothing is left to verify."""
    if not case.delivery.body and any(case.present_schemes()):
        yield (
            "The body is empty: something read it before duly did. Read it once, before any "
            f"parser or middleware, and {RAW}."
        )


def suspect_body_length(case: RejectedCase) -> Iterator[Guess]:
    """Not as long as the sender says; a decompressed body is another matter."""
    stated = (case.delivery.header_text("content-length") or "").strip()
    size = len(case.delivery.body)
    plain = stated.isascii() and stated.isdigit() and len(stated) < 16
    if plain and int(stated) != size and not case.delivery.has("content-encoding"):
        yield (
            f"The body has {size} bytes where Content-Length says {int(stated)}: it was cut or "
            f"changed before it was verified, so {RAW}."
        )


def suspect_lossy_body(case: RejectedCase) -> Iterator[Guess]:
    """Characters that only a lossy decoder writes."""
    if REPLACED in case.delivery.body:
        yield (
            "The body holds replacement characters (U+FFFD), so it was probably decoded and "
            f"encoded again before it was verified: {RAW}."
        )
