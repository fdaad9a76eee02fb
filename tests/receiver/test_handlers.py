"""Which handlers an event finds, and what is said where it finds none."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

import duly
from tests.receiver.senders import PAID, text

if TYPE_CHECKING:
    from tests.conftest import HandClock
    from tests.receiver.subjects import Case, DatabaseOf, Subject

PATTERNS = {
    "invoice.paid": True,
    "invoice.*": True,
    "*": True,
    "*.paid": True,
    "invoice.pai?": True,
    "invoice.[op]*": True,
    "invoice": False,
    "invoice.paid.*": False,
    "Invoice.paid": False,
    "order.*": False,
    "invoice.?": False,
}


async def test_every_handler_whose_pattern_matches_gets_the_event_and_no_other(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        shop = subject.source(now=clock, handled=None)
        for number, pattern in enumerate(PATTERNS):
            subject.on(shop.name, pattern, f"handler-{number:02}")
        assert (await shop.send(id="evt_1")).said == "accepted"
        wanted = [number for number, matches in enumerate(PATTERNS.values()) if matches]
        assert shop.worked() == [("evt_1", f"handler-{number:02}") for number in wanted]


async def test_a_handler_that_matches_by_two_patterns_runs_once(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        shop = subject.source(now=clock, handled=None)
        handle = subject.handler("handle")
        for pattern in ("invoice.paid", "invoice.*", "*"):
            subject.app.on(shop.name, pattern, name="handle")(handle)
        await shop.send(id="evt_1")
        assert shop.worked() == [("evt_1", "handle")]


async def test_an_event_without_a_handler_is_acknowledged_and_recorded_as_ignored(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        shop = subject.source(now=clock, handled="order.*")
        answer = await shop.send(PAID, id="evt_1")

        assert (answer.status, answer.json) == (200, {"status": "ignored", "event": "evt_1"})
        [event] = subject.records.events(shop.name)
        assert (event.flags, event.body) == ("ignored", PAID)
        assert subject.records.deliveries(shop.name) == {("evt_1", "ignored"): 1}
        assert shop.worked() == []
        assert (await shop.send(PAID, id="evt_1")).said == "duplicate"


async def test_an_event_without_a_type_is_for_whoever_takes_everything(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        shop = subject.source(now=clock)
        subject.on(shop.name, "?*", "typed")
        await shop.send(b"{}", id="evt_1")
        assert shop.worked() == [("evt_1", "handle")]
        assert subject.records.events(shop.name)[0].type is None


async def test_a_type_is_matched_as_its_sender_writes_it(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        shop = subject.source(now=clock, handled="facture.réglée")
        subject.on(shop.name, "x" * 300, "long")
        written = '{"type":"facture.réglée"}'.encode()
        assert (await shop.send(written, id="evt_1")).said == "accepted"
        assert (await shop.send(text({"type": "x" * 300}), id="evt_2")).said == "accepted"
        assert shop.worked() == [("evt_1", "handle"), ("evt_2", "long")]


def warnings_in(caplog: pytest.LogCaptureFixture, word: str) -> list[str]:
    found = [record for record in caplog.records if record.levelno == logging.WARNING]
    return [record.getMessage() for record in found if word in record.getMessage()]


async def test_a_source_without_handlers_warns_once_and_says_what_to_add(
    woven: Case, place: DatabaseOf, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with woven.open(place, clock) as subject:
        bare, other = (subject.source(now=clock, handled=None) for _ in range(2))
        for number in range(3):
            assert (await bare.send(id=f"evt_{number}")).said == "ignored"
            assert (await other.send(id=f"evt_{number}")).said == "ignored"

    for source in (bare, other):
        [warning] = warnings_in(caplog, source.name)
        assert f'@app.on("{source.name}")' in warning


async def sent_and_flushed(subject: Subject, clock: HandClock) -> None:
    """Two deliveries, and what is said about each when there is time."""
    shop = subject.source(now=clock)
    for number in range(2):
        await shop.send(id=f"evt_{number}")
        await subject.flush()


async def test_accepting_with_no_live_worker_warns_once_and_says_what_to_do(
    deferred: Case, place: DatabaseOf, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with deferred.open(place, clock) as subject:
        if deferred.kind != "memory":  # another test's worker may have died in this database
            subject.records.run("DELETE FROM duly_workers")
        await sent_and_flushed(subject, clock)

    [warning] = warnings_in(caplog, "worker")
    assert "`duly worker shop:app`" in warning
    assert "`duly serve shop:app`" in warning


async def test_accepting_with_a_live_worker_warns_of_nothing(
    stored: Case, place: DatabaseOf, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    seen = f"'{clock().isoformat()}'"
    if stored.kind != "postgres":
        seen = str(int(clock().timestamp() * 1_000_000))
    async with stored.open(place, clock) as subject:
        subject.records.run(
            "INSERT INTO duly_workers (id, host, pid, seen_at, queues, idle) VALUES"
            f" ('0199b2f0-0000-7000-8000-000000000001', 'here', 1, {seen}, 'default', '1')"
        )
        try:
            await sent_and_flushed(subject, clock)
        finally:
            subject.records.run("DELETE FROM duly_workers")

    assert warnings_in(caplog, "worker") == []


async def test_work_that_is_done_inside_needs_no_worker(
    inline: Case, place: DatabaseOf, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with inline.open(place, clock) as subject:
        await sent_and_flushed(subject, clock)

    assert warnings_in(caplog, "worker") == []


def test_what_cannot_handle_an_event_is_refused_when_it_is_registered() -> None:
    app = duly.Duly("memory:")
    app.source("shop", provider="stripe", secret="a secret")
    app.source("inside", provider="stripe", secret="a secret", inline=True)

    def handle(event: Any, job: Any) -> None: ...

    def other(event: Any, tx: Any) -> None: ...

    async def awaited(event: Any) -> None: ...

    def curious(request: Any) -> None: ...

    refused = pytest.raises(duly.errors.DulyError, match="inline")
    with refused:
        app.on("inside", name="handle")(handle)
    with pytest.raises(duly.errors.DulyError, match="request"):
        app.on("shop", name="curious")(curious)
    with pytest.raises(duly.errors.DulyError, match="no source"):
        app.on("shpo")
    app.on("shop", name="handle")(handle)
    with pytest.raises(duly.errors.DulyError, match="name="):
        app.on("shop", name="handle")(other)
    app.on("inside", name="other")(other)
    with pytest.raises(duly.errors.DulyError, match="the same"):
        app.on("inside", name="awaited")(awaited)
    app.close()
