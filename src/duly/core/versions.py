"""Versions for the order guard, as bytes whose bytewise order is the order of the versions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from duly.core.clock import to_microseconds
from duly.core.errors import UsageError

Version = int | datetime | str
Tie = Literal["apply", "skip"]

LEAST, MOST = -(2**63), 2**63 - 1
# Long enough for any ULID, ETag or revision string; a longer one is a document, not a version.
MOST_BYTES = 1024


class Kind(StrEnum):
    """What a resource's versions are made of. A resource keeps its first kind."""

    NUMBER = "number"
    TIME = "time"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class ComparableVersion:
    """A version ready to be stored: its kind, and bytes that sort as the version does."""

    kind: Kind
    order: bytes


def to_comparable(version: Version) -> ComparableVersion:
    """Turn a version into its comparable form, or say what a version may be."""
    match version:
        case bool():
            raise UsageError("a version is an int, an aware datetime or a string, not a bool")
        case int():
            return ComparableVersion(Kind.NUMBER, number_bytes(version))
        case datetime():
            return ComparableVersion(Kind.TIME, number_bytes(to_microseconds(version)))
        case str():
            return ComparableVersion(Kind.TEXT, text_bytes(version))
        case _:
            raise UsageError(
                "a version is an int, an aware datetime or a string, "
                f"not a {type(version).__name__}"
            )


def number_bytes(number: int) -> bytes:
    """Eight big-endian bytes, shifted so that negative numbers sort below positive ones."""
    if not LEAST <= number <= MOST:
        raise UsageError(
            "a version number must fit in 64 bits: pass larger ones as text of equal length"
        )
    return (number - LEAST).to_bytes(8, "big")


def text_bytes(version: str) -> bytes:
    """UTF-8 bytes, compared as they are: no locale, no case, no natural order of digits."""
    raw = version.encode("utf-8", "surrogatepass")
    if not 1 <= len(raw) <= MOST_BYTES:
        raise UsageError(
            f"a text version must have 1 to {MOST_BYTES} bytes, this one has {len(raw)}"
        )
    return raw


def tie_applies(kind: Kind, tie: Tie | None) -> bool:
    """Whether an equal version counts as newer.

    Timestamps of providers are often whole seconds, so two different events may share one: they
    apply unless told otherwise. An equal sequence number is the same change again: it is skipped.
    """
    if tie is None:
        return kind is Kind.TIME
    if tie not in ("apply", "skip"):
        raise UsageError('tie must be "apply" or "skip"')
    return tie == "apply"
