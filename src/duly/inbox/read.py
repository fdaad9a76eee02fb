"""Events read back from the inbox, for the handlers that run as jobs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from duly.core.clock import from_microseconds
from duly.inbox.event import Event
from duly.jobs.statements import EVENTS_READ
from duly.webhooks.delivery import Delivery
from duly.webhooks.selectors import DeliveryReader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.core.session import Row, Session
    from duly.inbox.route import Route
    from duly.jobs.lease import LeasedJob


async def read_events(session: Session, leases: Sequence[LeasedJob]) -> dict[str, Row]:
    """The rows of the events that these jobs are about, by id."""
    wanted = sorted({leased.event for leased in leases if leased.event is not None})
    if not wanted:
        return {}
    rows = await session.rows(EVENTS_READ, ids=json.dumps(wanted))
    return {row["id"]: row for row in rows}


def event_from(row: Row, routes: Mapping[str, Route]) -> Event:
    """An event as its handler saw it, or would have, when it arrived."""
    route = routes.get(f"/{row['source']}")
    body = b"" if row["body"] is None else bytes(row["body"])
    headers: dict[str, str] = json.loads(bytes(row["headers"]))
    found, form = parse_body(
        route, headers, body, from_microseconds(row["received_at"]).timestamp()
    )
    time = row["event_time"]
    tenant, slash, _ = row["scope"].rpartition("/")
    return Event(
        id=row["event_id"],
        type=row["type"],
        source=row["source"],
        tenant=tenant if slash else None,
        body=body,
        headers=headers,
        json=found,
        form=form,
        time=None if time is None else from_microseconds(time),
        received_at=from_microseconds(row["received_at"]),
    )


def parse_body(
    route: Route | None, headers: Mapping[str, str], body: bytes, now: float
) -> tuple[Any, tuple[tuple[str, str], ...]]:
    """What a body says, as JSON and as a form."""
    if route is None:
        return None, ()
    source = route.source
    delivery = Delivery(dict(headers), body, source.url, "POST", now)
    reading = DeliveryReader(delivery, source.limits, source.provider)
    parsed = reading.document.value
    return (None if reading.odd else parsed), tuple(reading.form)
