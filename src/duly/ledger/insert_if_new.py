"""Keys that lead to a row: a claim whose token is the id of the row that its first holder wrote.

A second caller reads the id there. Nothing of it can fail the caller's transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from duly.core.errors import InProgress
from duly.ledger.statements import CLAIMS_INSERT, KEYS_READ

if TYPE_CHECKING:
    from duly.core.keys import Key
    from duly.core.session import Session, Value

ROUNDS = 3


class KeyedRow(NamedTuple):
    """A row to be written once under a key."""

    key: Key
    id: str
    window: int  # how long the key is known, in microseconds
    # The statement that writes the row, and its parameters.
    insert: str
    values: dict[str, Value]
    # The statement that takes a key over whose window has passed, unless its row has work left.
    retake: str
    what: str  # for an error message

    @property
    def token(self) -> bytes:
        """The token of the claim: the bytes of the id."""
        return bytes.fromhex(self.id.replace("-", ""))


def id_of(token: bytes) -> str:
    """An id from its bytes."""
    text = bytes(token).hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


async def insert_if_new(session: Session, keyed: KeyedRow) -> str:
    """Claim the key and insert, or find the row that it led to before; returns that row's id."""
    for _ in range(ROUNDS):
        found = await claim_or_find(session, keyed)
        if found is not None:
            return found
    raise InProgress(
        f"the key {keyed.key.text} of {keyed.what} was claimed and given up {ROUNDS} times while "
        "this call looked: try again"
    )


async def claim_or_find(session: Session, keyed: KeyedRow) -> str | None:
    """Claim the key and insert, or return the id of its row; None where the claim moved."""
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
        await session.rows(keyed.insert, **keyed.values)
        return keyed.id
    found = await session.rows(KEYS_READ, scope=key.scope, digest=key.digest)
    if not found or found[0]["token"] is None:  # pruned or rolled back between the two statements
        return None
    token = bytes(found[0]["token"])
    if token == keyed.token or not found[0]["expired"]:
        # A rerun after a lost reply finds what it committed.
        return id_of(token)
    return await take_over_key(session, keyed, token)


async def take_over_key(session: Session, keyed: KeyedRow, token: bytes) -> str | None:
    """Insert under a key whose window has passed, unless the old row still has work to do."""
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
        await session.rows(keyed.insert, **keyed.values)
        return keyed.id
    again = await session.rows(KEYS_READ, scope=key.scope, digest=key.digest)
    if again and again[0]["token"] is not None and bytes(again[0]["token"]) == token:
        return id_of(token)
    return None
