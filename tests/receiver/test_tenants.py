"""Tenants: ids are known per tenant, and a delivery that belongs to nobody is written nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.receiver.senders import text

if TYPE_CHECKING:
    from duly.types import VerifiedDelivery
    from tests.conftest import HandClock
    from tests.receiver.subjects import Case, DatabaseOf


def account(verified: VerifiedDelivery) -> Any:
    """Whose it is, by the account that the body names."""
    found = verified.json["account"]
    if found == "raise":
        raise KeyError(found)
    return found


def of(whose: object) -> bytes:
    return text({"type": "invoice.paid", "account": whose})


async def test_the_same_id_under_two_tenants_is_two_events(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        shop = subject.source(now=clock, tenant=account)
        for whose in ("ann", "bob", "a/nn", "ann/"):
            assert (await shop.send(of(whose), id="evt_1")).said == "accepted"
            assert (await shop.send(of(whose), id="evt_1")).said == "duplicate"
            assert subject.records.claims(f"{whose}/{shop.name}") == ["evt_1"]

        assert shop.worked() == [("evt_1", "handle")] * 4
        if woven.way != "deferred":
            assert [event.tenant for event in subject.seen] == ["ann", "bob", "a/nn", "ann/"]


async def test_a_delivery_whose_tenant_cannot_be_told_is_written_nowhere(
    stored: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with stored.open(place, clock) as subject:
        shop = subject.source(now=clock, tenant=account)
        before = subject.records.everything()
        for whose in ("raise", None, "", 5, ["ann"], True, "a\0", "x" * 10_000):
            answer = await shop.send(of(whose), id="evt_1")
            assert (answer.status, answer.said) == (500, "TENANT_FAILED"), repr(whose)[:9]
        assert subject.records.everything() == before
        assert (await shop.send(of("ann"), id="evt_1")).said == "accepted"


async def test_a_delivery_that_is_not_genuine_is_never_shown_to_the_tenant_function(
    stored: Case, place: DatabaseOf, clock: HandClock
) -> None:
    asked: list[VerifiedDelivery] = []

    def ask(verified: VerifiedDelivery) -> str:
        asked.append(verified)
        return "ann"

    async with stored.open(place, clock) as subject:
        shop = subject.source(now=clock, tenant=ask)
        assert (await shop.send(of("ann"), seed="another")).said == "BAD_SIGNATURE"
    assert asked == []
