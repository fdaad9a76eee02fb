"""The fuzzer's bytes as a script: numbers, choices and chunks, taken from the front."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

Option = TypeVar("Option")


class Script:
    """Bytes that are read like a script; beyond their end everything is zero or empty."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0

    def take(self, length: int) -> bytes:
        """The next bytes."""
        taken = self.data[self.place : self.place + length]
        self.place += length
        return taken

    def number(self, size: int = 1) -> int:
        """A number of so many bytes."""
        return int.from_bytes(self.take(size), "big")

    def choice(self, options: Sequence[Option]) -> Option:
        """One of several."""
        return options[self.number() % len(options)]

    def chunk(self) -> bytes:
        """Some bytes, with their length before them."""
        return self.take(self.number())

    def rest(self) -> bytes:
        """Everything that is left."""
        return self.take(len(self.data))
