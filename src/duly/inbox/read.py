"""Events read back from the inbox, for the handlers that run as jobs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from duly.core.clock import from_microseconds
from duly.inbox.event import Event, parse_nothing
from duly.jobs.lease import take
from duly.jobs.statements import EVENTS_READ

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.core.session import Row, Session
    from duly.inbox.route import Route
    from duly.jobs.lease import FetchRequest, LeasedJob


async def take_with_events(
    session: Session, asked: FetchRequest
) -> tuple[list[LeasedJob], dict[str, Row]]:
    """Lease jobs, and read the rows of the events that they are about, by id."""
    leases = await take(session, asked)
    wanted = sorted({leased.event for leased in leases if leased.event is not None})
    if not wanted:
        return leases, {}
    rows = await session.rows(EVENTS_READ, ids=json.dumps(wanted))
    return leases, {row["id"]: row for row in rows}


def event_from(row: Row, routes: Mapping[str, Route]) -> Event:
    """The event of a row, as its handler sees it; without JSON and form if its source is gone."""
    route = routes.get(f"/{row['source']}")
    body = b"" if row["body"] is None else bytes(row["body"])
    time = row["event_time"]
    tenant, slash, _ = row["scope"].rpartition("/")
    return Event(
        id=row["event_id"],
        type=row["type"],
        source=row["source"],
        tenant=tenant if slash else None,
        body=body,
        headers=json.loads(bytes(row["headers"])),
        form=() if route is None else route.source.parse_form(body),
        time=None if time is None else from_microseconds(time),
        received_at=from_microseconds(row["received_at"]),
        parse=parse_nothing if route is None else route.source.parse_json,
    )
