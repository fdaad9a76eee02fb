"""Arrays in PostgreSQL's binary form, each built whole.

psycopg turns an array into bytes element by element, through an object for each. A batch has a
dozen arrays: built whole they cost a third of that.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from duly.core.session import Column, Value
    from duly.stores.sql.placeholders import Prepared

# Dimensions, whether an element is null, the type of the elements; and of the one dimension, the
# number of elements and its lower bound.
HEAD = struct.Struct("!iii")
DIMENSION = struct.Struct("!ii")
NULL = b"\xff\xff\xff\xff"


class BinaryArray(bytes):
    """The bytes of an array; each type of array has a subclass, by which psycopg knows it."""


class ArrayDumper(Dumper):
    """Hands the bytes over as they are."""

    format = Format.BINARY

    def dump(self, obj: Any) -> bytes:
        """Return the bytes."""
        return obj  # type: ignore[no-any-return]


def utf8(values: Sequence[Any]) -> list[bytes | None]:
    """Texts as bytes: duly's own connections speak UTF-8."""
    return [None if value is None else value.encode() for value in values]


def big_endian(size: int) -> Callable[[Sequence[Any]], list[bytes | None]]:
    """Return the function that turns numbers into so many bytes each."""

    def numbers(values: Sequence[Any]) -> list[bytes | None]:
        return [
            None if value is None else value.to_bytes(size, "big", signed=True) for value in values
        ]

    return numbers


def uuids(values: Sequence[Any]) -> list[bytes | None]:
    """Ids as the tables' texts show them, all of them turned into bytes at once."""
    raw = bytes.fromhex("".join(values).replace("-", ""))
    return [raw[start : start + 16] for start in range(0, len(raw), 16)]


class ArrayType:
    """One type of array: of which elements, and how they become bytes."""

    def __init__(
        self,
        element: int,
        array: int,
        kinds: set[type],
        convert: Callable[[Sequence[Any]], Sequence[bytes | None]],
    ) -> None:
        self.element = element
        self.kinds = kinds
        self.convert = convert
        self.carrier = type("BinaryArray", (BinaryArray,), {})
        # For all connections made from now on. The carrier is duly's own: no value of the user's
        # is dumped by it.
        psycopg.adapters.register_dumper(
            self.carrier, type("BinaryArrayDumper", (ArrayDumper,), {"oid": array})
        )

    def build(self, values: Column) -> Column | bytes:
        """Return the array; the values themselves if they are not all of its type."""
        if not set(map(type, values)) <= self.kinds:
            return values
        if not values:
            empty: bytes = self.carrier(HEAD.pack(0, 0, self.element))
            return empty
        cells = self.convert(values)
        has_null = None in cells
        head = HEAD.pack(1, has_null, self.element) + DIMENSION.pack(len(cells), 1)
        if not has_null and len(sizes := {len(cell) for cell in cells if cell is not None}) == 1:
            size = sizes.pop().to_bytes(4, "big")  # the same before each: digests, ids, numbers
            pieces = [head, size, size.join(cells)]  # type: ignore[arg-type]
        else:
            pieces = [head]
            for cell in cells:
                pieces += (NULL,) if cell is None else (len(cell).to_bytes(4, "big"), cell)
        built: bytes = self.carrier(b"".join(pieces))
        return built


NONE = type(None)
ARRAYS = {
    "text": ArrayType(25, 1009, {str, NONE}, utf8),
    "bytea": ArrayType(17, 1001, {bytes, NONE}, list),
    "integer": ArrayType(23, 1007, {int, NONE}, big_endian(4)),
    "bigint": ArrayType(20, 1016, {int, NONE}, big_endian(8)),
    "uuid": ArrayType(2950, 2951, {str}, uuids),
}


def build_arrays(
    statement: Prepared, values: Mapping[str, Value | Column]
) -> dict[str, Value | Column]:
    """Return the values of a statement, its arrays built."""
    built = dict(values)
    for name, element in statement.arrays:
        given = values[name]
        if isinstance(given, list) and element in ARRAYS:
            built[name] = ARRAYS[element].build(given)
    return built
