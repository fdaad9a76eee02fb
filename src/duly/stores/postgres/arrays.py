"""Arrays in PostgreSQL's binary form, each built whole.

psycopg turns an array into bytes element by element, through an object for each. A batch has a
dozen arrays: built whole they cost a third of that.
"""

from __future__ import annotations

import sys
from array import array
from struct import Struct
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from duly.core.session import Column, Value
    from duly.stores.sql.placeholders import Prepared

# Dimensions, whether an element is null, the type of the elements; and of the one dimension, the
# number of elements and its lower bound. Each element follows behind its length.
HEAD = Struct("!iiiii")
NULL = b"\xff\xff\xff\xff"
NONE = type(None)


class BinaryArray(bytes):
    """The bytes of an array; each type of array has a subclass, by which psycopg knows it."""


class ArrayDumper(Dumper):
    """Hands the bytes over as they are."""

    format = Format.BINARY

    def dump(self, obj: Any) -> bytes:
        """Return the bytes."""
        return obj  # type: ignore[no-any-return]


def join_cells(cells: Sequence[bytes | None]) -> bytes:
    """The elements of an array, each behind its length."""
    pieces: list[bytes] = []
    for cell in cells:
        pieces += (NULL,) if cell is None else (len(cell).to_bytes(4, "big"), cell)
    return b"".join(pieces)


def join_bytes(values: Sequence[Any]) -> bytes:
    """Digests are all of one length; anything else goes cell by cell."""
    if NONE not in set(map(type, values)) and len(sizes := set(map(len, values))) == 1:
        size = sizes.pop().to_bytes(4, "big")
        return size + size.join(values)
    return join_cells(values)


def join_texts(values: Sequence[Any]) -> bytes:
    """Texts: duly's own connections speak UTF-8."""
    return join_cells([None if value is None else value.encode() for value in values])


def join_integers(values: Sequence[Any]) -> bytes:
    """Numbers of four bytes, each behind a length that has four bytes too."""
    pairs = [4] * (2 * len(values))
    pairs[1::2] = values
    built = array("i", pairs)
    if sys.byteorder == "little":
        built.byteswap()
    return built.tobytes()


def join_bigints(values: Sequence[Any]) -> bytes:
    """Numbers of eight bytes."""
    return join_cells(
        [None if value is None else value.to_bytes(8, "big", signed=True) for value in values]
    )


class ArrayType:
    """One type of array: of which elements, and how they become bytes."""

    def __init__(
        self, element: int, oid: int, types: set[type], join: Callable[[Sequence[Any]], bytes]
    ) -> None:
        self.element = element
        self.types = types
        self.join = join
        self.carrier = type("BinaryArray", (BinaryArray,), {})
        self.empty = self.carrier(HEAD.pack(0, 0, element, 0, 0)[:12])
        # For all connections made from now on. The carrier is duly's own: no value of the user's
        # is dumped by it.
        dumper = type("BinaryArrayDumper", (ArrayDumper,), {"oid": oid})
        psycopg.adapters.register_dumper(self.carrier, dumper)


ARRAYS = {
    "text": ArrayType(25, 1009, {str, NONE}, join_texts),
    "bytea": ArrayType(17, 1001, {bytes, NONE}, join_bytes),
    "integer": ArrayType(23, 1007, {int}, join_integers),
    "bigint": ArrayType(20, 1016, {int, NONE}, join_bigints),
}


def build_arrays(
    statement: Prepared, values: Mapping[str, Value | Column]
) -> dict[str, Value | Column]:
    """Return the values of a statement, its arrays built.

    An array stays as it is, for psycopg, if its values are not all of the type that its cast says.
    """
    built = dict(values)
    for name, element in statement.arrays:
        given, kind = values[name], ARRAYS.get(element)
        if not isinstance(given, list) or kind is None:
            continue
        if not given:
            built[name] = kind.empty
        elif (types := set(map(type, given))) <= kind.types:
            head = HEAD.pack(1, NONE in types, kind.element, len(given), 1)
            built[name] = kind.carrier(head + kind.join(given))
    return built
