"""Choosing a key by the id that the sender names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.core.errors import Code, Rejected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.webhooks.schemes.scheme import Key, LoadedKey


def with_key_id(keys: Sequence[LoadedKey[Key]], key_id: str | None) -> Sequence[LoadedKey[Key]]:
    """The keys of this id; where no key of the source has an id, all of them."""
    if key_id is None:
        return keys
    fitting = [held for held in keys if held.secret.key_id == key_id]
    if fitting or (keys and all(held.secret.key_id is None for held in keys)):
        return fitting or keys
    raise Rejected(Code.UNKNOWN_KEY, "the delivery names a key that this source does not have")
