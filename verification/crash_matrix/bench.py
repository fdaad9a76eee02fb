"""What a flow works with: the application in one colour, and its senders.

The verbs are awaited in both colours; in the blocking one they return without ever waiting, and
the flow is run to its end in one step.
"""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import duly
from duly.core.onestep import finish
from verification.crash_matrix.shop import HUB_SECRET, SECRET, Terms, shop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

SIGNING = {
    "orders": SECRET,
    "counter": SECRET,
    "ledger": SECRET,
    "hub": HUB_SECRET,
    "lost": HUB_SECRET,
}
PROVIDERS = {"hub": "github", "lost": "github"}
LEASE = timedelta(minutes=10)


class Delivery:
    """One event as its sender keeps it, to be sent until it is acknowledged."""

    def __init__(self, source: str, id: str, amount: int = 1, secret: str | None = None) -> None:
        self.source, self.id = source, id
        self._secret = secret or SIGNING[source]
        self.body = json.dumps({"type": "order.paid", "id": id, "amount": amount}).encode()
        self.named = (source, id, self.body.decode())

    def signed(self, at: float) -> duly.types.Signed:
        """The same event, signed anew."""
        provider = PROVIDERS.get(self.source, "standard-webhooks")
        type = "push" if provider == "github" else None
        return duly.sign(provider, self.body, self._secret, id=self.id, now=at, type=type)


class Bench:
    """The application, opened by the first verb."""

    def __init__(self, terms: Terms, make: Callable[[Terms], duly.Duly] = shop) -> None:
        self.terms, self.app = terms, make(terms)
        self.is_sync = terms.colour == "sync"

    def run(self, flow: Coroutine[Any, Any, None]) -> None:
        """Run a flow to its end."""
        if self.is_sync:
            try:
                finish(flow)
            finally:
                self.app.close()
        else:
            asyncio.run(closing(self.app, flow))

    async def _verb(self, name: str, *arguments: Any, **options: Any) -> Any:
        if self.is_sync:
            return getattr(self.app, name)(*arguments, **options)
        return await getattr(self.app.aio, name)(*arguments, **options)

    async def deliver(self, *deliveries: Delivery) -> None:
        """Send events, all at once where that is possible, and write down what they are told."""
        if self.is_sync:
            for delivery in deliveries:
                await self._deliver(delivery)
        else:
            async with asyncio.TaskGroup() as tasks:
                for delivery in deliveries:
                    tasks.create_task(self._deliver(delivery))

    async def _deliver(self, delivery: Delivery) -> None:
        clock = self.terms.clock or (lambda: datetime.now(UTC))
        signed = delivery.signed(clock().timestamp())
        reply = await self._verb("receive", delivery.source, signed.headers, signed.body)
        said = json.loads(reply.body or b"{}").get("status", "")
        source, id, body = delivery.named
        self.terms.journal.write(
            "reply", source=source, id=id, body=body, status=reply.status, said=said
        )

    async def enqueue(self, name: str, of: str, **options: Any) -> None:
        """Ask for one job."""
        await self._verb("enqueue", name, {"of": of}, **options)

    async def send(self, path: str, **options: Any) -> None:
        """Ask for one message."""
        await self._verb("send", self.terms.origin + path, json={"of": path}, **options)

    async def work(self, **options: Any) -> duly.types.Worked:
        """Work until there is nothing to do."""
        done: duly.types.Worked = await self._verb(
            "work", concurrency=2, **{"lease": LEASE} | options
        )
        self.terms.journal.write("worked", lost=done.lost, who=os.getpid())
        return done

    async def relay(self) -> duly.types.Relayed:
        """Send until there is nothing to send."""
        done: duly.types.Relayed = await self._verb("relay", concurrency=2, lease=LEASE)
        self.terms.journal.write("relayed", lost=done.lost)
        return done

    async def replay(self, ids: Sequence[str]) -> None:
        """Have dead letters run again."""
        for id in ids:
            await self.admin("jobs", "replay", id)

    async def dead(self) -> list[Any]:
        """The dead letters."""
        return list(await self.admin("jobs", "dead"))

    async def discard(self, id: str) -> None:
        """Remove a dead letter."""
        await self.admin("jobs", "discard", id)

    async def forget(self, source: str, id: str) -> None:
        """Forget an event."""
        await self._verb("forget", source, id)

    async def outbox(self, name: str, *arguments: Any) -> Any:
        """A verb for dead messages."""
        return await self.admin("outbox", name, *arguments)

    async def admin(self, part: str, name: str, *arguments: Any) -> Any:
        """A verb for dead jobs or messages."""
        if self.is_sync:
            return getattr(getattr(self.app, part), name)(*arguments)
        return await getattr(getattr(self.app.aio, part), name)(*arguments)


async def closing(app: duly.Duly, flow: Coroutine[Any, Any, None]) -> None:
    """A flow, and what the application still has to write."""
    try:
        await flow
    finally:
        await app.aclose()
