"""Keys that lead to a row: a claim whose token is the id of what its first holder wrote.

Who comes second reads the id there. Nothing of it can fail the caller's transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from duly.core.errors import InProgress
from duly.ledger.statements import CLAIMS_INSERT, KEYS_READ

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from duly.core.keys import Key
    from duly.core.session import Session

ROUNDS = 3


class KeyedRow(NamedTuple):
    """What is to be written once under a key: its id, and for how long the key is known."""

    key: Key
    id: str
    window: int  # microseconds
    # The statement that takes a key over whose window has passed, unless its holder has work left.
    retake: str
    what: str  # for a person

    @property
    def token(self) -> bytes:
        """Who claims the key: this row, and no other."""
        return token_of(self.id)


def token_of(row: str) -> bytes:
    """The bytes of an id."""
    return bytes.fromhex(row.replace("-", ""))


def id_of(token: bytes) -> str:
    """An id from its bytes."""
    text = bytes(token).hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


async def insert_if_new(
    session: Session, keyed: KeyedRow, insert: Callable[[], Awaitable[None]]
) -> str:
    """Claim the key and insert, or find the row that it led to before; returns that row's id."""
    for _ in range(ROUNDS):
        found = await claim_or_find(session, keyed, insert)
        if found is not None:
            return found
    raise InProgress(
        f"the key {keyed.key.text} of {keyed.what} was claimed and given up {ROUNDS} times while "
        "this call looked: try again"
    )


async def claim_or_find(
    session: Session, keyed: KeyedRow, insert: Callable[[], Awaitable[None]]
) -> str | None:
    """Claim the key and insert, or say whose it is; None where it moved meanwhile."""
    key = keyed.key
    made = await session.rows(
        CLAIMS_INSERT,
        scope=key.scope,
        digest=key.digest,
        key_text=key.text,
        fingerprint=None,
        ttl=keyed.window,
        state="done",
        token=keyed.token,
        lease=None,
    )
    if made:
        await insert()
        return keyed.id
    found = await session.rows(KEYS_READ, scope=key.scope, digest=key.digest)
    if not found or found[0]["token"] is None:  # pruned or rolled back between the two statements
        return None
    token = bytes(found[0]["token"])
    if token == keyed.token or not found[0]["expired"]:
        # A rerun after a lost reply finds what it committed.
        return id_of(token)
    return await take_over_key(session, keyed, token, insert)


async def take_over_key(
    session: Session, keyed: KeyedRow, token: bytes, insert: Callable[[], Awaitable[None]]
) -> str | None:
    """The window is over: a new row starts, unless the old one still has work to do."""
    key = keyed.key
    taken = await session.rows(
        keyed.retake,
        scope=key.scope,
        digest=key.digest,
        before=token,
        holder=id_of(token),
        token=keyed.token,
        ttl=keyed.window,
    )
    if taken:
        await insert()
        return keyed.id
    again = await session.rows(KEYS_READ, scope=key.scope, digest=key.digest)
    if again and again[0]["token"] is not None and bytes(again[0]["token"]) == token:
        return id_of(token)
    return None
