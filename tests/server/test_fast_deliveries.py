"""Deliveries that take no ASGI: answered once, in order, after their commit, as with ASGI."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from duly import Duly
from duly.receiver import pipeline
from duly.server.fast_delivery import FastPath
from tests.server.hostile.application import SECRET, application
from tests.server.hostile.connections import Connection
from tests.server.hostile.wire import BODY, awaited_answer, delivery, request, signed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable
    from pathlib import Path

    from duly.core.session import Operation, Runner
    from duly.inbox.route import Route
    from duly.receiver.responses import Reply
    from tests.server.hostile.wire import Answer

T = TypeVar("T")
TOKEN = ("x-gitlab-token", "a token that is only shown")


class Gate:
    """The store's own runner, whose batches wait until the gate is open."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.open = asyncio.Event()
        self.waiting = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    async def run_batch(self, operation: Operation[T], *, within: float | None = None) -> T:
        """The same, once the gate is open."""
        self.waiting += 1
        await self.open.wait()
        self.waiting -= 1
        return await self._runner.run_batch(operation, within=within)


class Served:
    """An application, the gate before its store, and how each of its deliveries came in."""

    def __init__(self, app: Duly) -> None:
        self.app = app
        self.gate = Gate(app.store.async_runner)
        self.ways: list[str] = []
        receiver: Any = app.receiver
        receiver._async_runner = self.gate
        submit, receive = receiver.submit, receiver.receive

        def submitted(*arguments: Any) -> None:
            self.ways.append("fast")
            submit(*arguments)

        def received(*arguments: Any) -> Awaitable[Reply]:
            self.ways.append("asgi")
            reply: Awaitable[Reply] = receive(*arguments)
            return reply

        receiver.submit, receiver.receive = submitted, received

    def events(self) -> list[str]:
        """The ids of the events that are stored, in their order."""
        with self.app.transaction() as tx:
            return [row["event_id"] for row in tx.execute("SELECT event_id FROM duly_events")]


@asynccontextmanager
async def served(url: str, *, gated: bool = False, **deadlines: Any) -> AsyncIterator[Served]:
    """An application on this store; its gate is open unless it is to hold the commits."""
    app = application(url)
    for name, value in {"deadline": 30.0, **deadlines}.items():  # however slow the machine is
        setattr(app.receiver, f"_{name}", value)
    serving = Served(app)
    if not gated:
        serving.gate.open.set()
    try:
        yield serving
    finally:
        serving.gate.open.set()
        await app.aclose()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store."""
    if request.param == "postgres":
        return str(request.getfixturevalue("own_postgres_url"))
    return f"sqlite:///{tmp_path / 'duly.db'}"


async def told(connection: Connection, pieces: list[bytes]) -> list[Answer]:
    """What the sender of these pieces is told, each sent when what is complete is answered."""
    protocol: Any = connection.protocol
    for piece in pieces:
        await connection.hand([piece])
        await connection.until(lambda: not protocol.is_delivering() or protocol._arriving)
    return await connection.answers()


@pytest.mark.promise("I1")
async def test_a_small_delivery_is_answered_after_its_commit_and_takes_no_asgi(url: str) -> None:
    async with served(url, gated=True) as serving, Connection(serving.app) as connection:
        await connection.hand([delivery("one")])
        await connection.until(lambda: serving.gate.waiting == 1)
        assert connection.protocol.is_delivering()
        assert serving.events() == []
        serving.gate.open.set()
        answer = await awaited_answer(connection.reader)
        assert answer is not None
        assert (answer.status, answer.json) == (200, {"status": "accepted", "event": "one"})
        assert serving.events() == ["one"]
        assert serving.ways == ["fast"]
        assert serving.app.router.memory_used == 0


async def test_pipelined_deliveries_are_answered_each_with_its_own_event_in_order(
    url: str,
) -> None:
    names = [f"evt_{number}" for number in range(6)]
    async with served(url) as serving, Connection(serving.app) as connection:
        answers = await told(
            connection, [b"".join(map(delivery, names[:4])), *map(delivery, names[4:])]
        )
        assert [answer.json["event"] for answer in answers] == names
        assert set(serving.ways) == {"fast", "asgi"}
        assert sorted(serving.events()) == names


async def test_a_connection_has_one_delivery_in_the_queue_and_is_read_no_further_than_the_next(
    url: str,
) -> None:
    async with served(url, gated=True) as serving, Connection(serving.app) as connection:
        await connection.hand([delivery("first")])
        await connection.until(lambda: serving.gate.waiting == 1)
        connection.protocol.data_received(delivery("second"))
        assert connection.protocol.flow.read_paused
        assert len(serving.ways) == 1
        serving.gate.open.set()
        answers = await connection.answers()
        assert [answer.json["event"] for answer in answers] == ["first", "second"]


async def test_a_refusal_waits_for_the_answer_to_the_delivery_before_it(url: str) -> None:
    forged = delivery("forged").replace(b"v1,", b"v1,A")
    async with served(url, gated=True) as serving, Connection(serving.app) as connection:
        await connection.hand([delivery("first") + forged + delivery("last")])
        await connection.until(lambda: serving.gate.waiting == 1)
        await asyncio.sleep(0.05)  # the refusal, which waits for no commit, could be here
        serving.gate.open.set()
        answers = await connection.answers()
        assert [answer.status for answer in answers] == [200, 403, 200]
        assert [answers[at].json["event"] for at in (0, 2)] == ["first", "last"]


@pytest.mark.promise("I1")
async def test_a_delivery_answered_503_at_its_deadline_is_answered_by_no_later_commit(
    url: str,
) -> None:
    async with (
        served(url, gated=True, deadline=0.5) as serving,
        Connection(serving.app) as connection,
    ):
        await connection.hand([delivery("late")])
        late = await awaited_answer(connection.reader)
        assert late is not None
        assert (late.status, late.said) == (503, "STORE_UNAVAILABLE")
        queue: Any = serving.app.receiver.group_commit()
        queue._deadline = 30.0  # for all that follows, however slow the machine is
        serving.gate.open.set()
        await connection.until(lambda: serving.gate.waiting == 0)
        while serving.events() != ["late"]:  # noqa: ASYNC110  # its commit goes on
            await asyncio.sleep(0.01)
        answers = await told(connection, [delivery("next")])
        assert [one.json for one in answers] == [{"status": "accepted", "event": "next"}]


@pytest.mark.promise("I1")
async def test_a_sender_that_has_gone_is_not_answered_and_its_event_is_kept(url: str) -> None:
    async with served(url, gated=True) as serving:
        async with Connection(serving.app) as connection:
            await connection.hand([delivery("gone")])
            await connection.until(lambda: serving.gate.waiting == 1)
            connection.protocol.transport.abort()
            await connection.until(lambda: not connection.state.connections)
        serving.gate.open.set()
        async with Connection(serving.app) as connection:
            [answer] = await told(connection, [delivery("gone")])
            assert answer.said == "duplicate"
        assert serving.app.router.memory_used == 0


async def test_an_answer_that_cannot_be_given_disturbs_no_other_delivery_and_ends_its_own(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    acknowledge = pipeline.acknowledge_delivery

    def fail_for_bad(route: Route, events: Any, outcomes: Any) -> Reply:
        if events[0].event_id == "bad":
            raise ZeroDivisionError
        return acknowledge(route, events, outcomes)

    monkeypatch.setattr("duly.receiver.receiver.acknowledge_delivery", fail_for_bad)
    async with AsyncExitStack() as stack:
        serving = await stack.enter_async_context(served(url, gated=True))
        connections = [await stack.enter_async_context(Connection(serving.app)) for _ in range(3)]
        for connection, name in zip(connections, ("a", "bad", "b"), strict=True):
            await connection.hand([delivery(name)])
        serving.gate.open.set()
        answers = [(await connection.answers())[0] for connection in connections]
        assert [answer.status for answer in answers] == [200, 500, 200]
        assert answers[1].closes
        assert sorted(serving.events()) == ["a", "b", "bad"]
    assert "could not be answered" in caplog.text


async def test_a_drain_waits_for_the_answer_and_then_closes(url: str) -> None:
    async with served(url, gated=True) as serving, Connection(serving.app) as connection:
        await connection.hand([delivery("one")])
        await connection.until(lambda: serving.gate.waiting == 1)
        connection.protocol.shutdown()
        assert not connection.over
        serving.gate.open.set()
        answer = await awaited_answer(connection.reader)
        assert answer is not None
        assert (answer.said, answer.closes) == ("accepted", True)
        await connection.until(lambda: connection.over)


async def test_the_keep_alive_timer_does_not_end_a_delivery_that_is_being_committed(
    url: str,
) -> None:
    async with (
        served(url) as serving,
        Connection(serving.app, options={"timeout_keep_alive": 0.2}) as connection,
    ):
        await connection.hand([delivery("first")])
        assert await awaited_answer(connection.reader) is not None
        serving.gate.open.clear()
        await connection.hand([delivery("second")])
        await asyncio.sleep(0.4)  # twice the timer
        serving.gate.open.set()
        answer = await awaited_answer(connection.reader)
        assert answer is not None
        assert answer.json["event"] == "second"


def variants() -> dict[str, list[bytes]]:
    """Requests, each of which must be answered alike on both ways."""
    forged = [(name, value[:-4] + "AAA=") if "signature" in name.lower() else (name, value)
              for name, value in signed("forged")]  # fmt: skip
    stale = [(name, "1700000000") if "timestamp" in name.lower() else (name, value)
             for name, value in signed("stale")]  # fmt: skip
    length = ("content-length", str(len(BODY)))
    other = b'{"type":"invoice.paid","data":{"id":"in_2"}}'
    return {
        "accepted": [delivery("new")],
        "copy": [delivery("new"), delivery("new")],
        "other body": [delivery("new"), delivery("new", other)],
        "ignored": [delivery("quiet", path="/packed")],
        "forged": [request("POST", "/hooks", [*forged, length], BODY)],
        "stale": [request("POST", "/hooks", [*stale, length], BODY)],
        "unsigned": [request("POST", "/hooks", [length], BODY)],
        "no id": [request("POST", "/gitlab", [TOKEN, length], BODY)],
        "not JSON": [delivery("odd", b"{")],
        "empty": [delivery("empty", b"")],
        "slash": [delivery("slash", path="/hooks/")],
        "query": [delivery("query", path="/hooks?a=b")],
        "unknown": [delivery("unknown", path="/nobody")],
        "inline": [delivery("inline", path="/inline")],
        "close": [delivery("close", more=[("connection", "close")])],
        "compressed": [delivery("packed", more=[("content-encoding", "gzip")])],
        "expects": [delivery("expects", more=[("expect", "100-continue")])],
        "two pieces": [delivery("two")[:-7], delivery("two")[-7:]],
        "repeated": [delivery("twice", more=[("x-a", "1"), ("x-a", "2")])],
        "HTTP/1.0": [delivery("old").replace(b"HTTP/1.1", b"HTTP/1.0")],
        "two hosts": [delivery("hosts", more=[("host", "other.test")])],
        "odd host": [delivery("host").replace(b"host: duly.test", b"host: du ly")],
        "foreign": [delivery("rtsp").replace(b"HTTP/1.1", b"RTSP/1.0")],
        "large": [delivery("large", b'{"type":"a","pad":"%b"}' % (b"x" * 60_000))],
        "larger": [delivery("larger", b'{"type":"a","pad":"%b"}' % (b"x" * 70_000))],
        "many headers": [delivery("many", more=[(f"x-{n}", "1") for n in range(150)])],
        "upgrade": [delivery("up", more=[("upgrade", "h2c"), ("connection", "upgrade")])],
    }


@pytest.mark.parametrize("variant", list(variants()))
async def test_both_ways_give_the_same_answers_rows_and_counters(
    tmp_path: Path, variant: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "duly.access")

    async def seen(name: str) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
        caplog.clear()
        async with served(f"sqlite:///{tmp_path / name}.db") as serving:
            async with Connection(serving.app) as connection:
                pieces = variants()[variant]
                answers = await told(connection, pieces)
            await serving.app.receiver.metrics.flush_awaited()
            with serving.app.transaction() as tx:
                columns = "event_id, type, flags, headers, body, fingerprint, digest"
                rows = [dict(row) for row in tx.execute(f"SELECT {columns} FROM duly_events")]
                counted = [
                    dict(row) for row in tx.execute("SELECT scope, name, n FROM duly_counters")
                ]
            assert serving.app.router.memory_used == 0
            logged = [one.args for one in caplog.records if one.name == "duly.access"]
            # All but the time that it took.
            lines = [one[:-1] for one in logged if isinstance(one, tuple)]
            return [(one.status, one.body, one.headers) for one in answers], rows, counted, lines

    fast = await seen("fast")
    monkeypatch.setattr(FastPath, "find_delivery", lambda *_: None)
    assert fast == await seen("asgi")


async def test_deliveries_that_are_small_and_whole_are_the_fast_ones(tmp_path: Path) -> None:
    fast = {"accepted", "copy", "other body", "ignored", "forged", "stale", "unsigned", "no id",
            "not JSON", "empty", "close", "large", "upgrade", "two pieces"}  # fmt: skip
    found = set()
    for name, pieces in variants().items():
        async with served(f"sqlite:///{tmp_path / 'duly.db'}") as serving:
            async with Connection(serving.app) as connection:
                await told(connection, pieces)
            if set(serving.ways) == {"fast"}:
                found.add(name)
    assert found == fast


async def test_the_limit_of_connections_and_the_proxy_headers_hold_on_the_fast_way(
    tmp_path: Path,
) -> None:
    options: dict[str, Any] = {"proxy_headers": True, "forwarded_allow_ips": "*"}
    async with served(f"sqlite:///{tmp_path / 'duly.db'}") as serving:
        async with Connection(serving.app, options=options) as connection:
            connection.protocol.client = ("127.0.0.1", 1)
            forwarded = delivery("one", more=[("x-forwarded-for", "203.0.113.7, 10.0.0.1")])
            [answer] = await told(connection, [forwarded])
            assert answer.said == "accepted"
        assert serving.ways == ["fast"]
        with serving.app.transaction() as tx:
            [row] = tx.execute("SELECT remote FROM duly_events")
            assert row["remote"] == "203.0.113.7"
        async with Connection(serving.app, options={"limit_concurrency": 0}) as connection:
            [answer] = await told(connection, [delivery("two")])
            assert (answer.status, answer.said) == (503, "OVERLOADED")
        assert serving.ways == ["fast"]


async def test_an_app_that_refuses_requests_itself_is_not_passed_by(tmp_path: Path) -> None:
    class Guarded(Duly):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await send(
                {
                    "type": "http.response.start",
                    "status": 403,
                    "headers": [(b"content-length", b"0")],
                }
            )
            await send({"type": "http.response.body", "body": b""})

    app = Guarded(f"sqlite:///{tmp_path / 'duly.db'}")
    app.source("hooks", provider="standard-webhooks", secret=SECRET)
    async with Connection(app) as connection:
        [answer] = await told(connection, [delivery("one")])
        assert answer.status == 403
    await app.aclose()


async def test_headers_beyond_their_limit_are_refused_however_the_request_is_cut(
    tmp_path: Path,
) -> None:
    whole = delivery("big", b"{}" + b" " * 40_000, more=[("x-long", "x" * 45_000)])
    head = len(whole) - 40_002
    async with served(f"sqlite:///{tmp_path / 'duly.db'}") as serving:
        for pieces in ([whole], [whole[:head], whole[head:]]):
            async with Connection(serving.app) as connection:
                await connection.hand(pieces)
                [answer] = await connection.answers()
                assert (answer.status, answer.said) == (431, "HEADERS_TOO_LARGE")


async def test_an_idle_connection_holds_no_body(tmp_path: Path) -> None:
    async with (
        served(f"sqlite:///{tmp_path / 'duly.db'}") as serving,
        Connection(serving.app) as connection,
    ):
        await connection.hand([delivery("one")])
        assert await awaited_answer(connection.reader) is not None
        cycle: Any = connection.protocol.cycle
        assert cycle.body == b""


@pytest.mark.promise("I12")
async def test_the_end_waits_for_deliveries_whose_senders_have_gone(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "duly.access")
    async with served(url, gated=True) as serving:
        async with Connection(serving.app) as connection:
            await connection.hand([delivery("gone")])
            await connection.until(lambda: serving.gate.waiting == 1)
            connection.protocol.transport.abort()
        ending = asyncio.create_task(serving.app.receiver.aclose())
        await asyncio.sleep(0.05)
        assert not ending.done()
        serving.gate.open.set()
        await ending
        assert serving.events() == ["gone"]
        assert "POST /hooks 200 accepted gone" in caplog.text


async def test_a_head_that_has_begun_has_its_own_time_and_not_that_of_an_idle_connection(
    tmp_path: Path,
) -> None:
    options = {"timeout_keep_alive": 0.1}
    async with (
        served(f"sqlite:///{tmp_path / 'duly.db'}", gated=True) as serving,
        Connection(serving.app, options=options) as connection,
    ):
        second = delivery("second")
        await connection.hand([delivery("first") + second[:60]])
        serving.gate.open.set()
        first = await awaited_answer(connection.reader)
        assert first is not None
        await asyncio.sleep(0.3)  # three times what an idle connection has
        await connection.hand([second[60:]])
        answer = await awaited_answer(connection.reader)
        assert answer is not None
        assert answer.json["event"] == "second"


async def test_a_delivery_is_forgotten_once_it_is_answered(tmp_path: Path) -> None:
    async with (
        served(f"sqlite:///{tmp_path / 'duly.db'}") as serving,
        Connection(serving.app) as connection,
    ):
        gone: list[weakref.ref[Any]] = []
        gc.collect()
        gc.disable()  # nothing may be left for the garbage collector, either
        try:
            for number in range(5):
                await connection.hand([delivery(f"evt_{number}")])
                gone.append(weakref.ref(connection.protocol.cycle))
                assert await awaited_answer(connection.reader) is not None
            assert [one() is None for one in gone] == [True] * 4 + [False]
        finally:
            gc.enable()


async def test_a_body_that_never_comes_is_refused_in_time_and_holds_no_memory(
    tmp_path: Path,
) -> None:
    async with served(f"sqlite:///{tmp_path / 'duly.db'}") as serving:
        serving.app.router.body_deadline = 0.1
        async with Connection(serving.app) as connection:
            await connection.hand([delivery("half")[:-7]])
            assert connection.protocol.is_delivering()
            answer = await awaited_answer(connection.reader)
            assert answer is not None
            assert (answer.status, answer.said, answer.closes) == (408, "TOO_SLOW", True)
        async with Connection(serving.app) as connection:
            await connection.hand([delivery("half")[:-7]])
            assert serving.app.router.memory_used == len(BODY) - 7
            connection.protocol.transport.abort()
            await connection.until(lambda: not connection.state.connections)
        assert serving.app.router.memory_used == 0
        assert serving.ways == []


async def test_a_delivery_that_is_handed_to_asgi_keeps_what_has_come_of_its_body(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = delivery("whole")
    async with served(f"sqlite:///{tmp_path / 'duly.db'}") as serving:
        async with Connection(serving.app) as connection:
            await connection.hand([whole[:-20]])
            cycle: Any = connection.protocol.cycle
            monkeypatch.setattr(type(cycle), "add", lambda *_: False)  # as without memory
            await connection.hand([whole[-20:]])
            [answer] = await connection.answers()
            assert (answer.status, answer.json["event"]) == (200, "whole")
        assert serving.ways == ["asgi"]
        assert serving.app.router.memory_used == 0


async def test_a_body_for_which_there_is_no_memory_is_refused_by_asgi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(f"sqlite:///{tmp_path / 'duly.db'}") as serving:
        monkeypatch.setattr("duly.receiver.router.BODY_MEMORY", -100)
        monkeypatch.setattr("duly.receiver.router.SPARE_MEMORY", 110)
        whole = delivery("much")
        async with Connection(serving.app) as connection:
            [answer] = await told(connection, [whole[: -len(BODY) + 5], whole[-len(BODY) + 5 :]])
            assert (answer.status, answer.said, answer.closes) == (503, "OVERLOADED", True)
        assert serving.app.router.memory_used == 0
