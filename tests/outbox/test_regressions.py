"""What once went wrong in a relay, or nearly did: each test is a way in which it must not again."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import duly
from duly.core.defaults import Names
from duly.outbox.egress import Egress
from duly.outbox.lease import STAGED, peek_outbox, take
from duly.outbox.message import request_bytes
from duly.outbox.outcome import RELEASED
from duly.relay import dispatcher, poller
from duly.relay import sender as sending
from duly.relay.destination import UNHEALTHY_AFTER
from duly.relay.settings import RelaySettings
from duly.stores.sql.placeholders import prepare
from duly.stores.sql.statements import fill_slots, statement_text
from tests.outbox.moving import Bench
from tests.outbox.offices import AT_ONCE, STORES, an_office, relaying
from tests.outbox.receivers import PATIENCE, Receiver
from tests.worker.subjects import Case, DatabaseOf, seen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from duly.outbox.message import Message
    from tests.conftest import HandClock

# What is tried here is the relay itself: one store shows it, unless it is the store's doing.
alone = pytest.mark.parametrize("case", [Case("memory", "async", "tx")], ids=lambda case: case.name)
every_store = pytest.mark.parametrize("case", STORES, ids=lambda case: case.name)
MEGABYTE = 1024 * 1024


class Boom(BaseException):
    """An exception that is none."""


class Carrier:
    """A transport that is an object, and must be awaited."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def __call__(self, message: Message) -> None:
        self.seen.append(message.to)


@alone
async def test_an_object_that_must_be_awaited_is_awaited(case: Case, place: DatabaseOf) -> None:
    carrier = Carrier()
    async with an_office(case, place) as office:
        office.app.transport("mail")(carrier)
        await office.send("mail:ann")
        assert (await office.relay()).sent == 1
    assert carrier.seen == ["ann"]


async def awaited(message: Message) -> None:
    pytest.fail("nobody awaits it")


def generated(message: Message) -> Iterator[None]:
    pytest.fail("nobody runs it")
    yield


async def generated_and_awaited(message: Message) -> AsyncIterator[None]:
    pytest.fail("nobody runs it")
    yield


@alone
@pytest.mark.parametrize("inner", [awaited, generated, generated_and_awaited])
async def test_a_transport_that_returns_what_nobody_runs_has_not_sent(
    case: Case, place: DatabaseOf, inner: Callable[[Message], Any]
) -> None:
    def decorated(message: Message) -> Any:
        return inner(message)

    async with an_office(case, place) as office:
        office.app.transport("mail", attempts=1)(decorated)
        staged = await office.send("mail:ann")
        relayed = await office.relay()
        assert (relayed.sent, relayed.dead) == (0, 1)
        error = office.message(staged.id).error
        assert error is not None
        assert "transport mail returned something to await: make it `async def`" in error["message"]


@alone
async def test_a_transport_that_is_cancelled_inside_uses_up_its_attempts(
    case: Case, place: DatabaseOf
) -> None:
    calls = 0

    async def mail(message: Message) -> None:
        nonlocal calls
        calls += 1
        client = asyncio.ensure_future(asyncio.sleep(60))
        client.cancel()
        await client

    async with an_office(case, place) as office:
        office.app.transport("mail", attempts=3, backoff=AT_ONCE)(mail)
        staged = await office.send("mail:ann")
        async with asyncio.timeout(PATIENCE):
            relayed = await office.relay()
        assert (relayed.retried, relayed.dead, calls) == (2, 1, 3)
        assert office.message(staged.id).counted == ("dead", 3, 0)


@alone
@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_whatever_a_transport_raises_its_slot_is_free_for_the_next(
    case: Case, place: DatabaseOf, colour: str
) -> None:
    problems = {
        "boom": Boom("x"),
        "group": BaseExceptionGroup("several", [Boom("x")]),
        "generator": GeneratorExit(),
        "exit": SystemExit(3),
    }

    def blocking(message: Message) -> None:
        if message.to in problems:
            raise problems[message.to]

    async def awaiting(message: Message) -> None:
        blocking(message)

    async with an_office(case, place) as office:
        sender = awaiting if colour == "async" else blocking
        office.app.transport("mail", attempts=1, concurrency=1)(sender)
        await office.send_all([f"mail:{to}" for name in problems for to in (name, "ann")])
        async with asyncio.timeout(PATIENCE):
            relayed = await office.relay()
        assert (relayed.sent, relayed.dead) == (len(problems), len(problems))


@alone
@pytest.mark.parametrize("how", ["raised", "returned"])
async def test_not_yet_is_for_jobs_and_a_transport_that_says_it_is_told_so(
    case: Case, place: DatabaseOf, how: str
) -> None:
    async def mail(message: Message) -> object:
        answer = duly.NotYet(after=timedelta(seconds=1), reason="the shop is closed")
        if how == "raised":
            raise answer
        return answer

    async with an_office(case, place) as office:
        office.app.transport("mail", attempts=2, backoff=AT_ONCE)(mail)
        staged = await office.send("mail:ann")
        relayed = await office.relay()
        assert (relayed.sent, relayed.retried, relayed.dead) == (0, 1, 1)
        error = office.message(staged.id).error
        assert error is not None
        assert "transport mail said NotYet, which is for jobs: say Retry" in error["message"]


@alone
@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_a_timeout_of_the_transports_own_is_told_as_its_own(
    case: Case, place: DatabaseOf, colour: str
) -> None:
    def blocking(message: Message) -> None:
        raise TimeoutError("the mail server did not greet")

    async def awaiting(message: Message) -> None:
        blocking(message)

    async with an_office(case, place) as office:
        office.app.transport("mail", attempts=1)(awaiting if colour == "async" else blocking)
        await office.send("mail:ann")
        await office.relay()
        [letter] = await office.call("outbox.dead")
        assert letter.failure.type == "TimeoutError"
        assert letter.failure.message == "the mail server did not greet"
        assert "in blocking" in letter.failure.traceback


SIGNATURES: dict[str, Callable[[], Any]] = {
    "raises": lambda: 1 / 0,
    "returns-no-mapping": lambda: "Bearer x",
    "pads-a-value": lambda: {"X-Signed": " padded"},
    "breaks-a-line": lambda: {"X-Signed": "a\r\nHost: other"},
    "has-no-name": lambda: {"": "x"},
    "names-no-text": lambda: {5: "x"},
    "writes-the-length": lambda: {"Content-Length": "1"},
    "writes-the-host": lambda: {"host": "other"},
    "writes-the-key": lambda: {"idempotency-key": "mine"},
}


def signing(signature: Callable[[], Any]) -> Callable[[Message], Any]:
    def sign(message: Message) -> Any:
        return signature()

    return sign


@alone
async def test_a_signer_that_fails_lets_nothing_out_and_closes_no_destination(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place) as office:
        for name, signature in SIGNATURES.items():
            office.app.signer(name)(signing(signature))
            await office.send("/signed", sign=name, attempts=1)
        await office.send("/plain")
        relayed = await office.relay(per_destination=1)
        assert (relayed.sent, relayed.dead) == (1, len(SIGNATURES))
        assert [one.path for one in office.there.requests] == ["/plain"]
        errors = [str(row.error) for row in office.messages()]
        for name in SIGNATURES:
            assert any(f"the signer {name} failed" in error for error in errors)


@alone
async def test_a_request_that_cannot_be_written_closes_no_destination(
    case: Case, place: DatabaseOf
) -> None:
    """An older version has staged what is refused today."""
    async with an_office(case, place) as office:
        ids = await office.send_many(UNHEALTHY_AFTER + 1, "/padded", attempts=1)
        padded = request_bytes("POST", f"{office.there.url}/padded", {"X-Pad": " padded "})
        office.records.run(f"UPDATE duly_outbox SET request = X'{padded.hex()}'")
        await office.send("/plain")
        relayed = await office.relay(per_destination=1)
        assert (relayed.sent, relayed.dead) == (1, UNHEALTHY_AFTER + 1)
        assert [one.path for one in office.there.requests] == ["/plain"]
        error = office.message(ids[0]).error
        assert error is not None
        assert "this request cannot be written" in error["message"]


@alone
async def test_an_answer_about_one_message_holds_up_no_other(case: Case, place: DatabaseOf) -> None:
    """409 says that an earlier attempt is in flight, 425 to come later; and only this message."""
    async with an_office(case, place) as office:
        for status in (409, 425):
            office.there.answer(f"/{status}", status, headers={"Retry-After": "3600"})
        await office.send_all(["/409", "/425"] * UNHEALTHY_AFTER)
        await office.send_many(UNHEALTHY_AFTER)
        relayed = await office.relay(per_destination=1)
        assert (relayed.sent, relayed.retried) == (UNHEALTHY_AFTER, 2 * UNHEALTHY_AFTER)


@alone
async def test_slow_destinations_with_a_backlog_starve_no_other(
    case: Case, place: DatabaseOf
) -> None:
    """Five that are slow could keep every slot there is, for as long as their backlog lasts."""
    begun: list[str] = []

    async def slow(message: Message) -> None:
        begun.append(message.url)
        await asyncio.sleep(0.05)

    async def quick(message: Message) -> None:
        begun.append(message.url)

    async with an_office(case, place) as office:
        names = [f"slow{number}" for number in range(5)]
        for name in names:
            office.app.transport(name, concurrency=2)(slow)
        office.app.transport("quick")(quick)
        backlog = [f"{name}:ann" for name in names for _ in range(80)]
        await office.send_all(backlog)
        async with relaying(office, concurrency=10, grace=timedelta(0)):
            await seen(lambda: len(begun) > 10)
            await office.send("quick:ann")
            await seen(lambda: "quick:ann" in begun)
        assert begun.index("quick:ann") < len(backlog) * 3 / 4


@alone
async def test_one_call_that_hangs_costs_its_own_place_and_stops_nobody(
    case: Case, place: DatabaseOf
) -> None:
    released, lock = threading.Event(), threading.Lock()
    running = most = 0

    def mail(message: Message) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        if message.to == "hangs":
            released.wait(PATIENCE)
        time.sleep(0.03)
        with lock:
            running -= 1

    async with an_office(case, place) as office:
        office.app.transport("mail", concurrency=3, timeout=timedelta(seconds=0.5))(mail)
        await office.send_all(["mail:hangs"] + ["mail:ann"] * 80)
        relayed = await office.relay()
        released.set()
        assert (relayed.sent, relayed.retried, relayed.stuck) == (80, 1, False)
        assert most <= 3


@alone
async def test_where_every_place_hangs_the_relay_ends_and_the_rest_is_left_unharmed(
    case: Case, place: DatabaseOf
) -> None:
    released = threading.Event()

    def mail(message: Message) -> None:
        if message.to == "hangs":
            released.wait(PATIENCE)

    async with an_office(case, place) as office:
        office.app.transport("mail", concurrency=2, timeout=timedelta(seconds=0.1))(mail)
        await office.send_many(2, "mail:hangs")
        rest = await office.send_many(10, "mail:ann", attempts=1)
        async with asyncio.timeout(PATIENCE):
            relayed = await office.relay()
        released.set()
        assert (relayed.retried >= 2, relayed.dead, relayed.stuck) == (True, 0, True)
        left = {row.id: row.counted for row in office.messages()}
        assert {left[id] for id in rest if id in left} <= {("ready", 0, 0)}


@alone
async def test_a_transport_that_does_not_let_itself_be_cancelled_keeps_no_relay(
    case: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "OBEYING", 0.2)
    monkeypatch.setattr(sending, "OBEYING", 0.1)
    begun, released = asyncio.Event(), asyncio.Event()

    async def mail(message: Message) -> None:
        begun.set()
        while not released.is_set():
            with suppress(asyncio.CancelledError):
                await released.wait()

    async with an_office(case, place) as office:
        office.app.transport("mail")(mail)
        staged = await office.send("mail:ann")
        relay = office.app.process.relay(RelaySettings())
        running = asyncio.ensure_future(relay.run())
        await begun.wait()
        relay.stop_now()
        ended, _ = await asyncio.wait({running}, timeout=PATIENCE)
        released.set()
        await running
        assert ended
        assert office.message(staged.id).counted == ("ready", 0, 1)  # it may have arrived


@alone
async def test_a_relay_that_is_cancelled_while_it_takes_gives_back_what_it_took(
    case: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = threading.Event()

    async def slowly(*given: Any) -> Any:
        leases = await take(*given)
        taken.set()
        time.sleep(0.2)  # noqa: ASYNC251  # on the thread of the store
        return leases

    monkeypatch.setattr(poller, "take", slowly)
    async with an_office(case, place) as office:
        await office.send_many(5)
        running = asyncio.ensure_future(office.app.aio.relay())
        await seen(taken.is_set)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert {row.counted for row in office.messages()} == {("ready", 0, 0)}
        assert office.there.requests == []


@alone
async def test_a_call_ends_before_its_lease_and_is_an_attempt(
    case: Case, place: DatabaseOf
) -> None:
    """Or a relay would rescue what it is sending, send it again, and never mark it."""
    async with an_office(case, place) as office:
        released = office.there.hold("/hook")
        staged = await office.send()
        relayed = await office.relay(lease=timedelta(seconds=3))
        released.set()
        assert (relayed.lost, relayed.rescued) == (0, 0)
        tried = len(office.there.requests)
        assert office.message(staged.id).counted == ("ready", tried, 0)


@alone
async def test_a_relay_that_stalled_past_its_leases_gives_back_what_it_had_not_begun(
    case: Case, place: DatabaseOf
) -> None:
    """However many they are: a stack that grew with each of them would overflow."""
    lease, at_once = timedelta(seconds=1), 300
    running = most = begun = 0
    problems: list[object] = []

    async def mail(message: Message) -> None:
        nonlocal running, most, begun
        begun += 1
        running += 1
        most = max(most, running)
        if begun == at_once:
            time.sleep(lease.total_seconds() * 1.1)  # noqa: ASYNC251  # that is the stall
        await asyncio.sleep(0)
        running -= 1

    def note(_: object, context: object) -> None:
        problems.append(context)

    async with an_office(case, place) as office:
        office.app.transport("mail", concurrency=at_once)(mail)
        await office.send_many(3 * at_once, "mail:ann")
        asyncio.get_running_loop().set_exception_handler(note)
        async with asyncio.timeout(PATIENCE):
            relayed = await office.relay(concurrency=at_once, lease=lease)
        gc.collect()  # a task that died says so when it is forgotten
        assert problems == []
        assert {row.state for row in office.messages()} <= {"ready"}
        assert relayed.dead == 0
        assert most <= at_once


@every_store
async def test_what_is_given_back_keeps_its_place_in_the_line(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with an_office(case, place, clock) as office:
        bench = Bench(office.app.store, office.records, clock)
        bench.insert()
        lease = bench.take()
        clock.advance(timedelta(minutes=1))
        bench.settle(lease, RELEASED)
        assert bench.take().run_at == lease.run_at


@every_store
async def test_what_is_due_is_sent_although_the_clock_went_back(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    """Or a relay would look for ever at what it never takes."""
    async with an_office(case, place, clock) as office:
        await office.send()
        clock.advance(timedelta(hours=-1))
        async with relaying(office) as relay:
            await seen(lambda: relay.relayed.sent == 1)
        await office.relay()
        assert len(office.there.requests) == 1


@alone
async def test_a_dear_look_is_taken_seldom(
    case: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside an old snapshot every look walks through all that was sent."""

    async def dear(session: Any) -> Any:
        time.sleep(0.1)  # noqa: ASYNC251  # on the thread of the store
        return await peek_outbox(session)

    async with an_office(case, place) as office:
        relay = office.app.process.relay(RelaySettings())
        lookout = relay._poller
        assert lookout.pause_between_polls(poller.POLL_INTERVAL) == poller.POLL_INTERVAL
        monkeypatch.setattr(poller, "peek_outbox", dear)
        await relay.run("idle")
        assert (
            10 * 0.1
            <= lookout.pause_between_polls(poller.POLL_INTERVAL)
            <= poller.LONGEST_POLL_PAUSE
        )
        lookout._poll_seconds = 60.0
        assert lookout.pause_between_polls(poller.POLL_INTERVAL) == poller.LONGEST_POLL_PAUSE


@alone
async def test_an_answer_is_read_as_far_as_the_limit_says_and_its_connection_kept(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place, limit=20 * MEGABYTE) as office:
        office.there.answer("/hook", 200, body=bytes(12 * MEGABYTE))
        await office.send_many(2)
        assert (await office.relay(per_destination=1)).sent == 2
        assert office.there.connections == 1


@alone
async def test_a_signer_that_asks_somebody_holds_up_nobody_else(
    case: Case, place: DatabaseOf
) -> None:
    with Receiver() as other:
        async with an_office(case, place, None, other) as office:

            def billing(message: Message) -> dict[str, str]:
                other.wait_for(1)  # the signature waits for the other message
                return {"Authorization": "Bearer x"}

            office.app.signer("billing")(billing)
            await office.send(sign="billing", attempts=1)
            await office.send(f"{other.url}/hook")
            assert (await office.relay()).sent == 2


@asynccontextmanager
async def a_listener(heads: list[bytes]) -> AsyncIterator[str]:
    """A server that keeps the head of each request as it came, every line of it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 204 Told\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@alone
async def test_a_header_in_two_spellings_is_sent_once(case: Case, place: DatabaseOf) -> None:
    heads: list[bytes] = []

    def billing(message: Message) -> dict[str, str]:
        return {"x-shop": "signed", "CONTENT-type": "application/vnd.shop"}

    async with a_listener(heads) as url, case.open(place, egress=Egress(allow=[url])) as subject:
        subject.app.signer("billing")(billing)
        await subject.app.aio.send(
            f"{url}/hook",
            json=1,
            sign="billing",
            headers={"user-agent": "shop/1", "X-Shop": "staged"},
        )
        assert (await subject.app.aio.relay()).sent == 1
    [head] = heads
    lines = [line.partition(": ") for line in head.decode().split("\r\n")[1:] if line]
    found = {name.lower(): value for name, _, value in lines}
    assert len(found) == len(lines)
    assert found["user-agent"] == "shop/1"
    assert found["x-shop"] == "signed"
    assert found["content-type"] == "application/vnd.shop"


FILL = """
INSERT INTO duly_outbox (id, scope, destination, request, body, state, run_at, waiting,
                         max_attempts, created_at, dead_at)
SELECT gen_random_uuid(), 'send', 'https://' || number % 7 || '.example.com', '{}', '1',
       CASE WHEN number > 50000 THEN 'dead' ELSE 'ready' END, moment + interval '1 hour',
       number <= 50000, 20, moment, CASE WHEN number > 50000 THEN moment END
  FROM generate_series(1, 55000) AS each (number), clock_timestamp() AS moment
"""
LOOKS: dict[str, dict[str, object]] = {
    "outbox_stage": {"limit": STAGED},
    "outbox_next": {},
    "outbox_destinations": {"after": "''", "skipped": "'[]'", "limit": 100},
    "outbox_rescue": {"limit": 100, "most": 20, "waits": "'[1]'", "error": "''"},
}


def test_a_look_reads_few_of_the_messages_that_wait(own_postgres_url: str) -> None:
    """The table of an outage: very many messages wait for their next attempt, some are dead."""
    with psycopg.connect(own_postgres_url, autocommit=True) as connection:
        connection.execute("ALTER TABLE duly_outbox SET (autovacuum_enabled = false)")
        connection.execute(FILL)
        for known in (False, True):  # what the planner knows of the table
            if known:
                connection.execute("ANALYZE duly_outbox")
            for name, values in LOOKS.items():
                for mode in ("force_custom_plan", "force_generic_plan"):
                    read = read_by(connection, name, values, mode)
                    assert read < 200, (name, mode, known)


def read_by(
    connection: psycopg.Connection[Any], name: str, values: dict[str, object], mode: str
) -> int:
    """How many rows and pages a statement looks at, by every step of its plan."""
    text = prepare(fill_slots(statement_text("postgres", name), "postgres", Names()), "dollar")
    given = ", ".join(str(values.get(one, "NULL")) for one in text.order)
    connection.execute(f"SET plan_cache_mode = {mode}")
    connection.execute(f"PREPARE looked AS {text.text}")
    found = connection.execute(
        f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE looked ({given})"
    ).fetchone()
    connection.execute("DEALLOCATE looked")
    assert found is not None
    plan = found[0][0]["Plan"]
    pages = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return int(pages) + sum(map(read_in, steps_of(plan)))


def steps_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from steps_of(inner)


def read_in(step: dict[str, Any]) -> int:
    """The rows that one step gave, or looked at for nothing."""
    removed = sum(count for what, count in step.items() if what.startswith("Rows Removed"))
    return int((step["Actual Rows"] + removed) * step["Actual Loops"])
