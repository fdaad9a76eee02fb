"""No call outlasts the lease of its message: another relay may have it afterwards."""

from __future__ import annotations

import asyncio

import pytest

import duly
from duly.core.ids import new_id
from duly.ledger.lease import Lease
from duly.outbox.lease import LeasedMessage
from duly.outbox.message import request_bytes
from duly.outbox.outcome import Unreached
from duly.relay.sender import Sender


async def test_a_call_is_given_up_before_its_lease_is_over() -> None:
    app = duly.Duly("memory:")

    @app.transport("slow")
    async def slow(message: duly.types.Message) -> None:
        await asyncio.sleep(5)

    request = request_bytes("POST", "slow:x", {})
    leased = LeasedMessage(
        Lease(new_id(), b"t" * 16, 1), "", "slow", request, None, None, 0, 0, 1, 0, 0, 0
    )
    with pytest.raises(Unreached, match="no answer within"):
        async with asyncio.timeout(2):
            await Sender(app.registries.outbox).send(leased, 0.05)
    app.close()
