"""Keys of any length and content as 32 bytes that never meet by accident.

The digest covers each part with its length in front, so ``("a", "b:c")`` and ``("a:b", "c")``
differ. Nothing is folded or trimmed: look-alikes, case and trailing spaces stay apart.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import NamedTuple

# Enough to recognise a key in a listing; the digest is what is compared.
TEXT_LENGTH = 120


class Key(NamedTuple):
    """The name of one thing that happens once: scope, digest, and a shortened text for people."""

    scope: str
    digest: bytes
    text: str


def as_bytes(key: str | bytes) -> bytes:
    """The bytes of a key. Lone surrogates, which JSON can carry, keep a spelling of their own."""
    return key if isinstance(key, bytes) else key.encode("utf-8", "surrogatepass")


def length_prefixed(part: bytes) -> bytes:
    """A part with its length in front, so that no two lists of parts run into each other."""
    return len(part).to_bytes(8, "big") + part


def digest(*parts: bytes) -> bytes:
    """SHA-256 over length-prefixed parts."""
    return hashlib.sha256(b"".join(map(length_prefixed, parts))).digest()


@lru_cache(maxsize=1024)
def length_prefixed_scope(scope: str) -> bytes:
    """The first part of every key in a scope; an application has few of them."""
    return length_prefixed(as_bytes(scope))


def key_of(scope: str, key: str | bytes) -> Key:
    """Name a key inside a scope. Text and its UTF-8 bytes are the same key."""
    raw = key if isinstance(key, bytes) else as_bytes(key)
    named = length_prefixed_scope(scope) + len(raw).to_bytes(8, "big") + raw
    return Key(scope, hashlib.sha256(named).digest(), readable_text(raw))


def readable_text(raw: bytes) -> str:
    """Plain ASCII that any database encoding and any terminal can take."""
    if raw.isascii() and (plain := raw[:TEXT_LENGTH].decode("ascii")).isprintable():
        return plain
    text = raw[: TEXT_LENGTH * 4].decode("utf-8", "replace")[:TEXT_LENGTH]
    return (
        "".join(sign if sign.isprintable() else "?" for sign in text)
        .encode("ascii", "backslashreplace")
        .decode("ascii")
    )


def fingerprint(body: bytes) -> bytes:
    """SHA-256 of the raw body: what tells a repeated delivery from a changed one."""
    return hashlib.sha256(body).digest()
