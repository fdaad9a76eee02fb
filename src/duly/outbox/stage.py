"""Staging: a message is written in whatever transaction is open, and exists if that commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.ledger.insert_if_new import KeyedRow, insert_if_new
from duly.outbox.message import NewMessage, Staged
from duly.outbox.registry import SCOPE
from duly.outbox.statements import OUTBOX_INSERT, SENDS_RETAKE

if TYPE_CHECKING:
    from duly.core.session import Session, Value


async def stage(session: Session, message: NewMessage) -> Staged:
    """Stage one message in the open transaction, or find the one that its key led to before."""
    row: dict[str, Value] = {
        "id": message.id,
        "scope": SCOPE,
        "destination": message.destination,
        "request": message.request,
        "body": message.body,
        "signer": message.signer,
        "delay": message.delay,
        "at": message.at,
        "max_attempts": message.attempts,
    }
    found = message.id
    if message.claim is None:
        await session.rows(OUTBOX_INSERT, **row)
    else:
        found = await insert_if_new(
            session,
            KeyedRow(
                message.claim,
                message.id,
                message.window,
                OUTBOX_INSERT,
                row,
                SENDS_RETAKE,
                "this message",
            ),
        )
    if found == message.id:
        session.new_work.add("messages")
    return Staged(found, first=found == message.id)
