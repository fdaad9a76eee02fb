"""Staging: a message is written in whatever transaction is open, and exists if that commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.ledger.insert_if_new import KeyedRow, insert_if_new
from duly.outbox.message import NewMessage, Staged
from duly.outbox.registry import SCOPE
from duly.outbox.statements import OUTBOX_INSERT, SENDS_RETAKE

if TYPE_CHECKING:
    from duly.core.session import Session


async def stage(session: Session, message: NewMessage) -> Staged:
    """Stage one message in the open transaction, or find the one that its key led to before."""

    async def insert() -> None:
        await session.rows(
            OUTBOX_INSERT,
            id=message.id,
            scope=SCOPE,
            destination=message.destination,
            request=message.request,
            body=message.body,
            signer=message.signer,
            delay=message.delay,
            at=message.at,
            max_attempts=message.attempts,
        )
        session.new_work.add("messages")

    if message.claim is None:
        await insert()
        return Staged(message.id, first=True)
    keyed = KeyedRow(message.claim, message.id, message.window, SENDS_RETAKE, "this message")
    found = await insert_if_new(session, keyed, insert)
    return Staged(found, first=found == message.id)
