"""A source of Stripe's on a desk: events about versions of resources, and their handlers."""

from __future__ import annotations

import inspect
import json
import time
from typing import TYPE_CHECKING, Any

import duly
from tests.webhooks.genuine import keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.jobs.enqueue.desks import Desk

SECRET = keys("stripe").receiver
ORDER = ("data.object.id", "data.object.version")
BY_TIME = ("data.object.id", "created")


class Feed:
    """The events of one desk, received and handled in its colour, with or without ``tx``."""

    def __init__(self, desk: Desk, *, with_tx: bool) -> None:
        self.desk = desk
        self.with_tx = with_tx
        desk.app.source(desk.name, provider="stripe", secret=SECRET)
        # What the handlers were given, in turn.
        self.seen: list[Any] = []

    def on(
        self, name: str = "apply", body: Callable[[Any], Any] = lambda _: None, **options: Any
    ) -> None:
        """Handle the events: ``body`` runs after they are noted."""

        def noted(event: Any) -> Any:
            self.seen.append((name, event.json["data"]["object"].get("version")))
            return body(event)

        options |= {"name": f"{self.desk.name}-{name}", "queue": self.desk.name}
        self.desk.app.on(self.desk.name, **options)(self._handler(noted))

    def _handler(self, noted: Callable[[Any], Any]) -> Any:
        def leased(event: Any) -> Any:
            return noted(event)

        async def leased_awaited(event: Any) -> Any:
            answer = noted(event)
            return await answer if inspect.isawaitable(answer) else answer

        def inside(event: Any, tx: Any) -> Any:
            return noted(event)

        async def inside_awaited(event: Any, tx: Any) -> Any:
            return await leased_awaited(event)

        if self.desk.colour == "async":
            return inside_awaited if self.with_tx else leased_awaited
        return inside if self.with_tx else leased

    def receive(self, event_id: str, **members: Any) -> None:
        """Receive an event about the resource ``in_1``, unless it is told to be another."""
        created = members.pop("created", int(time.time()))
        found = {"id": members.pop("resource", "in_1"), **members}
        content = {"id": event_id, "type": "paid", "created": created, "data": {"object": found}}
        sent = duly.sign("stripe", json.dumps(content).encode(), SECRET)
        reply = self.desk.call(self.desk.verbs.receive, self.desk.name, sent.headers, sent.body)
        assert reply.status == 200

    def tell(self, event_id: str, **members: Any) -> duly.types.Worked:
        """Receive an event and have it worked on."""
        self.receive(event_id, **members)
        return self.desk.work()

    def outcomes(self, name: str = "apply") -> list[str]:
        """What became of the jobs of a handler, in turn."""
        rows = self.desk.rows(
            f"SELECT outcome FROM duly_history WHERE name = '{{name}}-{name}' ORDER BY ended, job"
        )
        return [outcome for (outcome,) in rows]

    def dead(self) -> list[str]:
        """The last errors of dead jobs."""
        rows = self.desk.rows(
            "SELECT last_error FROM duly_jobs WHERE queue = '{name}' AND state = 'dead'"
        )
        return [bytes(error).decode() for (error,) in rows]
