"""What is delivered: events of a source, or a job with its payload."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from duly._kernel.errors import Misuse, Rejected
from duly.gate.signing import sign
from duly.gate.verification import verify
from duly.tools.proving.sites import posted

if TYPE_CHECKING:
    from duly.app import Duly
    from duly.edge.routes import Route
    from duly.gate.signing import Signed
    from duly.tools.proving.where import Subject


@dataclass(frozen=True, slots=True)
class EventAsk:
    """An event as its sender sends it: signed again for each attempt.

    Args:
        source: whose it is; empty where it is still to be found out.
        body: the raw bytes.
        id: the event id, where it travels in a header.
        type: the event type, where it travels in a header.
        secret: what to sign with, where the source cannot.
        path: where it is posted to, where it comes through a site of the user's.
    """

    source: str
    body: bytes
    id: str | None = None
    type: str | None = None
    secret: str | None = None
    path: str | None = None

    def signed(self, route: Route) -> Signed:
        """A genuine delivery of it, made now."""
        source = route.source
        told = {"id": self.id, "type": self.type}
        if self.secret is None:
            return sign(source, self.body, **told)  # type: ignore[arg-type]
        return sign(source.provider, self.body, self.secret, url=source.url, **told)  # type: ignore[arg-type]

    async def deliver(self, subject: Subject) -> tuple[int, str]:
        """Deliver it once; the status, and duly's word for what became of it."""
        app, site = subject
        sent = self.signed(app._route(self.source))
        if self.path is not None:
            status, body = await posted(site, self.path, sent)
            return status, word_of(body)
        reply = await app.aio.receive(
            self.source, sent.headers, sent.body, method=sent.method, url=sent.url
        )
        return reply.status, word_of(reply.body)

    def settled(self, app: Duly) -> EventAsk:
        """The same with its source: the one that was named, or the only one that handles it."""
        routes = {path[1:]: route for path, route in app.site.routes.items()}
        if self.source:
            app._route(self.source)  # which says what there is instead
            return self
        fitting = [name for name, route in routes.items() if self._fits(route)]
        if len(fitting) == 1:
            return replace(self, source=fitting[0])
        known = ", ".join(routes) or "none"
        told = " and ".join(fitting) or "no source"
        raise Misuse(f"{told} could have sent this event: name it with --source (there is {known})")

    def _fits(self, route: Route) -> bool:
        """Whether a source has a handler for it."""
        try:
            sent = self.signed(route)
            found = verify(route.source, sent.headers, sent.body, url=sent.url, method=sent.method)
        except (Misuse, Rejected):
            return False
        return any(route.handlers.matching(item.type) for item in found.items)


@dataclass(frozen=True, slots=True)
class JobAsk:
    """A job that is enqueued under a key, as often as its caller is retried."""

    name: str
    payload: Any
    key: str = "duly-prove"

    async def deliver(self, subject: Subject) -> tuple[int, str]:
        """Enqueue it."""
        done = await subject.app.aio.enqueue(self.name, self.payload, key=self.key)
        return 200, "accepted" if done.first else "duplicate"

    def settled(self, app: Duly) -> JobAsk:
        """The same, of a job that there is."""
        app.jobs.named(self.name)
        return self


Ask = EventAsk | JobAsk


def word_of(body: bytes) -> str:
    """What a reply says of the event."""
    try:
        told = json.loads(body)
    except ValueError:
        return ""
    if not isinstance(told, dict):
        return ""
    return " ".join(str(told[name]) for name in ("status", "error", "reason") if told.get(name))
