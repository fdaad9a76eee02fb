"""A sender of genuine deliveries to one source, and the bodies it sends."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import duly
from tests.receiver.drivers import Answer, Request
from tests.webhooks.genuine import keys

if TYPE_CHECKING:
    from duly.webhooks import Signed
    from tests.conftest import HandClock
    from tests.receiver.subjects import Subject


def text(value: object) -> bytes:
    """A body as most senders write it."""
    return json.dumps(value, separators=(",", ":")).encode()


PAID = text({"type": "invoice.paid", "data": {"id": "in_1", "amount": 2000}})
OTHER = text({"type": "invoice.paid", "data": {"id": "in_2", "amount": 9}})


class Sender:
    """Signs and sends; ``url`` is what a provider that signs it was given."""

    def __init__(self, subject: Subject, name: str, provider: str, clock: HandClock | None) -> None:
        self.subject, self.name, self.provider, self.clock = subject, name, provider, clock
        self.url = f"https://shop.example/{name}"

    def signed(self, body: bytes = PAID, **options: Any) -> Signed:
        """A genuine delivery, signed at the time of the subject's clock."""
        told: dict[str, Any] = {"url": self.url}
        if self.clock is not None:
            told["now"] = self.clock()
        seed = options.pop("seed", "the one seed")
        return duly.sign(self.provider, body, keys(self.provider, seed).sender, **told | options)

    def request(self, body: bytes = PAID, *, path: str | None = None, **options: Any) -> Request:
        """The same as a request."""
        signed = self.signed(body, **options)
        return Request(path or f"/{self.name}", signed.body, signed.headers)

    async def send(self, body: bytes = PAID, **options: Any) -> Answer:
        """Send one delivery and wait for its answer."""
        return await self.subject.ask(self.request(body, **options))

    async def send_copies(self, copies: int, body: bytes = PAID, **options: Any) -> list[Answer]:
        """Send the same delivery many times at once."""
        request = self.request(body, **options)
        return list(await asyncio.gather(*(self.subject.ask(request) for _ in range(copies))))

    def worked(self) -> list[tuple[str, str]]:
        """The event and the handler of each job, or of each effect."""
        return self.subject.worked(self.name)
