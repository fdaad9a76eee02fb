"""Tables of the first release get the inbox without losing, changing or holding up anything."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import psycopg
import pytest

import duly
from duly.core.defaults import WAIT
from duly.core.onestep import finish
from duly.inbox.accept import receive_many
from duly.inbox.new_event import EventOutcome, Status, event_digest
from tests.support import schema_6
from tests.support.catalogs import catalog, facts
from tests.support.inboxes import arrival, done, found
from tests.support.migrators import earlier_duly, migrated

LEASE = timedelta(hours=1)
AT_ONCE = timedelta(0)
FIRST = ["0001_ledger"]
INBOX = [
    "0002_inbox",
    "0003_jobs",
    "0004_outbox",
    "0005_effects",
    "0006_first_due",
    "0007_first_delivery",
]
# Two effects as they were written before they knew their event; the job of the second is gone.
GONE = "0198c3a2-5d1e-7b4f-9c60-8a2f41d7e305"
EFFECTS_OF_OLD = f"""INSERT INTO duly_effects (scope, digest, name, state, key, job, epoch, at)
SELECT scope, digest, 'charge', 'done', 'key', id, 1, received_at
  FROM (SELECT job.scope, job.id, digest, received_at
          FROM duly_jobs AS job JOIN duly_events AS event ON event.id = job.event
         UNION ALL
        SELECT 'gone', '{GONE}', digest, received_at FROM duly_events) AS old"""
NEW_TABLES = {
    *("events", "deliveries", "jobs", "workers", "counters"),
    *("history", "effects", "schedules"),
}


@pytest.fixture(params=["postgres", "sqlite"])
def url(request: pytest.FixtureRequest) -> str:
    """A database with the tables of the first release."""
    name = "empty_postgres_url" if request.param == "postgres" else "sqlite_url"
    address: str = request.getfixturevalue(name)
    with earlier_duly(1):
        assert migrated(address, "duly_") == FIRST
    return address


def fill(url: str) -> None:
    """What an application left behind: done, held, expiring, and versions of resources."""
    with earlier_duly(1), duly.store(url) as store:
        assert duly.dedup(store, "shop", "done", body=b"body").first
        assert duly.dedup(store, "shop", "for ever", ttl=None).first
        assert duly.fence(store, "shop", "fenced", lambda: {"result": 1}) == {"result": 1}
        duly.once(store, "shop", "held", lease=LEASE).__enter__()
        assert duly.newer(store, "order", 7)


def ledger(store: duly.types.Store) -> list[list[tuple[object, ...]]]:
    """Every row of the ledger's tables."""
    return [
        found(store, f"SELECT * FROM duly_{table} ORDER BY 1, 2")
        for table in ("claims", "versions")
    ]


def test_an_upgrade_keeps_every_row_and_the_name_of_the_installation(url: str) -> None:
    fill(url)
    with earlier_duly(1), duly.store(url) as old:
        before, named = ledger(old), facts(url)["installation_id"]
    assert migrated(url, "duly_") == INBOX
    with duly.store(url) as store:
        assert ledger(store) == before
        assert [len(rows) for rows in before] == [4, 1]
    assert facts(url) == {"installation_id": named, "schema_version": "6", "migrated_to": "7"}


def test_after_an_upgrade_every_claim_still_says_what_it_said(url: str) -> None:
    fill(url)
    migrated(url, "duly_")
    with duly.store(url) as store:
        again = duly.dedup(store, "shop", "done", body=b"other")
        assert (again.duplicate, again.body_differs) == (True, True)  # type: ignore[union-attr]
        assert duly.dedup(store, "shop", "for ever").duplicate
        assert duly.fence(store, "shop", "fenced", lambda: {"not run": 0}) == {"result": 1}
        with pytest.raises(duly.errors.InProgress):
            duly.dedup(store, "shop", "held", wait=AT_ONCE)
        assert not duly.newer(store, "order", 6)
        assert duly.newer(store, "order", 8)


def test_an_upgraded_database_is_the_same_as_one_made_today(url: str) -> None:
    fill(url)
    migrated(url, "duly_")
    assert migrated(url, "today_") == FIRST + INBOX
    upgraded, made = catalog(url, "duly_"), catalog(url, "today_")
    assert upgraded == made
    names = {str(row[1 if url.startswith("sqlite") else 0]) for row in next(iter(made.values()))}
    assert names > NEW_TABLES


def test_an_upgraded_database_receives_events(url: str, scope: str) -> None:
    migrated(url, "duly_")
    with duly.store(url) as store:
        outcomes = finish(receive_many(store.sync_runner, [arrival(scope, "evt_1")]))
        assert outcomes == [EventOutcome(Status.ACCEPTED)]
        assert found(store, "SELECT event_id FROM duly_events") == [("evt_1",)]
        assert len(found(store, "SELECT id FROM duly_jobs")) == 1


def test_an_upgrade_tells_effects_of_living_jobs_which_event_they_belong_to(
    url: str, scope: str
) -> None:
    with earlier_duly(4):
        migrated(url, "duly_")
        assert schema_6.receive(url, [arrival(scope, "evt_1")]) == 1
        with duly.store(url) as store:
            done(store, EFFECTS_OF_OLD)
    assert migrated(url, "duly_") == INBOX[3:]
    with duly.store(url) as store:
        known = found(store, "SELECT job, event_digest FROM duly_effects")
        [(job,)] = found(store, "SELECT id FROM duly_jobs")
    assert {one: event and bytes(event) for one, event in known} == {
        job: event_digest(scope, "evt_1"),
        type(job)(GONE): None,
    }


def open_store(url: str) -> None:
    with duly.store(url):
        pass


def claim_awaited(url: str) -> None:
    async def ask() -> None:
        async with duly.store(url) as store:
            await duly.aio.dedup(store, "scope", "key")

    asyncio.run(ask())


def check(url: str) -> None:
    duly.store(url).check()


@pytest.mark.parametrize("way", [open_store, claim_awaited, check])
def test_a_server_with_the_tables_of_the_first_release_says_run_migrate(
    empty_postgres_url: str, way: Callable[[str], object]
) -> None:
    with earlier_duly(1):
        migrated(empty_postgres_url, "duly_")
    with pytest.raises(
        duly.errors.SchemaMismatch,
        match="at schema version 1, this duly needs 7: run `duly migrate URL`",
    ):
        way(empty_postgres_url)


def test_the_first_release_refuses_the_tables_of_this_one(url: str) -> None:
    migrated(url, "duly_")
    with (
        earlier_duly(1),
        pytest.raises(duly.errors.SchemaMismatch, match="install the newer duly"),
        duly.store(url),
    ):
        pass


def test_an_upgrade_waits_for_no_claim_and_holds_none_up(empty_postgres_url: str) -> None:
    with earlier_duly(1):
        migrated(empty_postgres_url, "duly_")
    with (
        psycopg.connect(empty_postgres_url) as working,
        psycopg.connect(empty_postgres_url) as migrating,
    ):
        assert duly.dedup(working, "shop", "before").first
        migrating.execute("SET lock_timeout = '1ms'")
        assert duly.migrate(migrating) == INBOX  # not committed yet: its locks are held
        assert duly.dedup(working, "shop", "beside", wait=WAIT).first
        working.commit()
        migrating.commit()
    with duly.store(empty_postgres_url) as store:
        assert [
            answer.first for answer in duly.dedup_many(store, "shop", ["before", "beside"])
        ] == [
            False,
            False,
        ]
