"""No call is begun that could outlast the lease of its message: another relay may have it then."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from duly.core.defaults import WAIT
from duly.outbox.lease import DestinationDemand, take
from duly.relay.settings import RelaySettings
from tests.outbox.offices import an_office
from tests.worker.subjects import Case

if TYPE_CHECKING:
    from tests.worker.subjects import DatabaseOf

IN_MEMORY = Case("memory", "async", "tx")


@pytest.mark.parametrize("case", [IN_MEMORY], ids=lambda case: case.name)
@pytest.mark.parametrize(("left", "begun"), [(20.0, 1), (5.0, 0), (-1.0, 0)])
async def test_a_message_is_begun_only_where_its_lease_lasts_for_the_call(
    case: Case, place: DatabaseOf, left: float, begun: int
) -> None:
    async with an_office(case, place) as office:
        staged = await office.send()
        dispatcher = office.app.process.relay(RelaySettings())._dispatcher
        wants = [
            DestinationDemand(
                dispatcher.destinations.get_or_create(office.message(staged.id).destination).name, 1
            )
        ]
        seconds = dispatcher.lease_clock.seconds
        leases = await office.app.store.async_runner.run(
            lambda session: take(session, wants, int(seconds * 1_000_000)), wait=WAIT
        )
        # The event loop was busy with others since it was leased.
        dispatcher.destinations.record_batch(wants, leases, time.monotonic() - seconds + left)
        assert dispatcher.start() == begun
        assert len(dispatcher.destinations.list_running()) == begun
        await dispatcher.abandon()
        # Neither had its first byte sent, so both are given back at no cost.
        assert office.message(staged.id).counted == ("ready", 0, 0)
        assert office.there.requests == []
