"""What is delivered: events of a source, or a job with its payload."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.core.errors import Rejected, UsageError
from duly.inbox.new_event import too_old_reason
from duly.prove.sites import post
from duly.webhooks.sign import header_of, sign
from duly.webhooks.verify import verify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.app.duly import Duly
    from duly.inbox.route import Route
    from duly.prove.loader import Subject
    from duly.testing.keys import SigningKeys
    from duly.webhooks.event_fields import VerifiedDelivery
    from duly.webhooks.secrets import Secret
    from duly.webhooks.sign import Signed
    from duly.webhooks.source import Source


class EventAge(NamedTuple):
    """When something happened, where it says so."""

    moment: datetime | None
    # Whether that is before what its source remembers, so that it would not be handled.
    forgotten: bool = False


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

    def sign_delivery(self, route: Route, now: float) -> Signed:
        """A genuine delivery of it, made now, in seconds since 1970."""
        source = route.source
        return sign(
            source.provider,
            self.body,
            signer_of(source, now) if self.secret is None else self.secret,
            id=self.id,
            type=self.type,
            now=now,
            url=source.url,
        )

    async def deliver(self, subject: Subject) -> tuple[int, str]:
        """Deliver it once; the status, and duly's word for what became of it."""
        app, site = subject
        sent = self.sign_delivery(app.router.route_named(self.source), app.receiver.now())
        if self.path is not None:
            status, body = await post(site, self.path, sent)
            return status, word_of(body)
        reply = await app.aio.receive(
            self.source, sent.headers, sent.body, method=sent.method, url=sent.url
        )
        return reply.status, word_of(reply.body)

    @property
    def destination_text(self) -> str:
        """Where it goes, for a sentence about it."""
        return "" if self.path is None else f" to {self.path}"

    def resolve(self, app: Duly) -> EventAsk:
        """The same with its source: the one that was named, or the only one that handles it."""
        routes = {path[1:]: route for path, route in app.router.routes.items()}
        if self.source:
            self._refuse_unhandled(app)
            return self
        reasons = {
            name: self._reason_unhandled(route, app.receiver.now())
            for name, route in routes.items()
        }
        fitting = [name for name, why in reasons.items() if why is None]
        if len(fitting) == 1:
            return replace(self, source=fitting[0])
        if fitting:
            raise UsageError(
                f"{' and '.join(fitting)} could have sent this event: name its source with "
                "--source, or source= in a test"
            )
        told = "; ".join(f"{name}: {why}" for name, why in reasons.items()) or "there is none"
        raise UsageError(f"no source could have sent this event ({told})")

    def _refuse_unhandled(self, app: Duly) -> None:
        """Refuse an event that the named source has no handler for; a site may see it otherwise."""
        route, now = app.router.route_named(self.source), app.receiver.now()
        self.sign_delivery(route, now)  # either says what there is instead, or what else it takes
        try:
            self._verify(route, now)
        except Rejected:  # as the single run will say
            return
        why = self._reason_unhandled(route, now)
        if why is not None and self.path is None:
            raise UsageError(f"source {self.source} cannot take this event: {why}")

    def ids(self, app: Duly) -> frozenset[tuple[str, str]]:
        """Its source and event id, as far as they can be read; several of a batch."""
        try:
            found = self._verify(app.router.route_named(self.source), app.receiver.now())
        except Rejected:
            return frozenset()
        return frozenset((self.source, item.id) for item in found.events)

    def age(self, app: Duly) -> EventAge:
        """When it happened, by its own account, and whether the source remembers so far back."""
        route, now = app.router.route_named(self.source), app.receiver.now()
        try:
            found = self._verify(route, now)
        except Rejected:  # as the single run will say
            return EventAge(None)
        times = [item.time for item in found.events if item.time is not None]
        old = any(too_old_reason(route, found, event, now) for event in found.events)
        return EventAge(max(times, default=None), forgotten=old)

    def _verify(self, route: Route, now: float) -> VerifiedDelivery:
        """The verified delivery of it, by the verification of its source."""
        sent = self.sign_delivery(route, now)
        return verify(
            route.source, sent.headers, sent.body, now=now, url=sent.url, method=sent.method
        )

    def _reason_unhandled(self, route: Route, now: float) -> str | None:
        """Why a source has no handler for it; None where it has one."""
        try:
            found = self._verify(route, now)
        except (UsageError, Rejected) as problem:
            return str(problem)
        if any(route.handlers.matching(item.type) for item in found.events):
            return None
        types = sorted({item.type for item in found.events if item.type is not None})
        return (
            f"no handler for {', '.join(types)}"
            if types
            else self._reason_type_unknown(route.source)
        )

    def _reason_type_unknown(self, source: Source) -> str:
        """Why its type is not known."""
        place = header_of(source.provider.selectors.get("type"))
        if place is not None and self.type is None:
            return f"its type comes in the header {place.spelled}: give --type, or type= in a test"
        told = why_not_json(self.body)
        return f"its type cannot be told: {told or 'its body does not say it'}"


@dataclass(frozen=True, slots=True)
class JobAsk:
    """A job that is enqueued under a key, as often as its caller is retried."""

    name: str
    payload: Any
    key: str = "duly-prove"

    @property
    def destination_text(self) -> str:
        """It goes nowhere."""
        return ""

    async def deliver(self, subject: Subject) -> tuple[int, str]:
        """Enqueue it."""
        done = await subject.app.aio.enqueue(self.name, self.payload, key=self.key)
        return 200, "accepted" if done.first else "duplicate"

    def resolve(self, app: Duly) -> JobAsk:
        """The same, of a job that there is."""
        app.registries.jobs.find_plain(self.name)
        return self

    def ids(self, app: Duly) -> frozenset[tuple[str, str]]:  # noqa: ARG002  # of events
        """It is known by its key."""
        return frozenset()

    def age(self, app: Duly) -> EventAge:  # noqa: ARG002  # of events
        """It is of this moment."""
        return EventAge(None)


Ask = EventAsk | JobAsk


def refuse_same_event(asks: Sequence[Ask], app: Duly) -> None:
    """Refuse two files that are one event: the second of them would be a duplicate."""
    known: dict[tuple[str, str], int] = {}
    for number, ask in enumerate(asks, 1):
        ids = ask.ids(app)
        if ids and ids <= set(known):
            one = min(ids)
            raise UsageError(
                f"events {known[one]} and {number} are one event, {one[1]:.80}: an order needs "
                "another, later event, with an id of its own"
            )
        known |= dict.fromkeys(ids, number)


def why_not_json(body: bytes) -> str:
    """Why a body is not JSON; nothing where it is."""
    if not body.strip():
        return "its body is empty"
    try:
        json.loads(body)
    except ValueError as problem:
        return f"its body is not JSON ({problem})"
    return ""


@cache
def lent_keys() -> SigningKeys:
    """What the sources of this process were lent: it is one of the proof's own, and ends with it.

    Imported here, because every command of `duly` imports this module.
    """
    from duly.testing.keys import SigningKeys

    return SigningKeys()


def signer_of(source: Source, now: float) -> Secret:
    """What to sign with: a secret of the source, or the private half of a key that it is lent."""
    try:
        return lent_keys().signing_secret(source, datetime.fromtimestamp(now, UTC))
    except UsageError:
        raise UsageError(
            f"source {source.name} holds a public key of a form that duly has no pair for, or "
            "nothing that is good today: give the sender's private key, by --secret-from VARIABLE "
            "or as secret= in a test, and its public half to app.source(…)"
        ) from None


def word_of(body: bytes) -> str:
    """What a reply says of the event."""
    try:
        told = json.loads(body)
    except ValueError:
        return ""
    if not isinstance(told, dict):
        return ""
    return " ".join(str(told[name]) for name in ("status", "error", "reason") if told.get(name))
