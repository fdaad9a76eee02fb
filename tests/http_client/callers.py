"""The ways out, asked alike: both guarded transports, ``job.http`` in both colours, the relay."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import httpx
import uvloop

import duly
from duly.http_client.async_transport import AsyncGuardedTransport
from duly.http_client.connect import resolve
from duly.http_client.sync_transport import GuardedTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from duly import Egress
    from duly.outbox.dead import DeadMessage
    from duly.relay.stats import Relayed

T = TypeVar("T")
COLOURS = ("sync", "async")
# A relay runs on uvloop where that is installed, and its transports differ in what they forgive.
WAYS = (*COLOURS, "uvloop")
ONCE = duly.Backoff(first=timedelta(hours=1))


def call(
    colour: str,
    egress: Egress,
    *urls: str,
    method: str = "GET",
    content: bytes | None = None,
    resolver: Callable[[str, int], list[Any]] = resolve,
) -> list[httpx.Response]:
    """Make calls one after another through one guarded transport; their answers, read."""
    if colour == "sync":
        with httpx.Client(
            transport=GuardedTransport(egress, resolver=resolver), timeout=None
        ) as client:
            return [client.request(method, url, content=content) for url in urls]

    async def awaited() -> list[httpx.Response]:
        guarded = AsyncGuardedTransport(egress, resolver=resolver)
        async with httpx.AsyncClient(transport=guarded, timeout=None) as client:
            return [await client.request(method, url, content=content) for url in urls]

    return run_on(colour, awaited())


def run_on(colour: str, work: Coroutine[Any, Any, T]) -> T:
    """Await something on the event loop of that colour."""
    return uvloop.run(work) if colour == "uvloop" else asyncio.run(work)


def problems(colour: str, egress: Egress, urls: list[str]) -> list[object]:
    """What calling each of these comes to, through one transport: its problem, or its answer."""

    def asked(client: httpx.Client, url: str) -> object:
        try:
            return client.get(url)
        except Exception as problem:
            return problem

    async def awaited() -> list[object]:
        async with httpx.AsyncClient(transport=AsyncGuardedTransport(egress)) as client:
            calls = (client.get(url) for url in urls)
            return list(await asyncio.gather(*calls, return_exceptions=True))

    if colour == "async":
        return asyncio.run(awaited())
    with httpx.Client(transport=GuardedTransport(egress)) as client:
        return [asked(client, url) for url in urls]


@dataclass
class Ran:
    """What a handler saw."""

    result: Any = None
    problem: BaseException | None = None
    key: str = ""


def in_a_job(
    colour: str, egress: Egress, act: Callable[[Any], Any], app: duly.Duly | None = None
) -> Ran:
    """Let a job of that colour do something with its ``job.http``; what came of it.

    Where the handler is awaited, ``act`` may return what is to be awaited.
    """
    app = app or duly.Duly("memory:", egress=egress)
    ran = Ran()

    def blocking(job: duly.Job) -> None:
        ran.key = job.key("charge")
        try:
            ran.result = act(job.http)
        except Exception as problem:
            ran.problem = problem

    async def awaited(job: Any) -> None:
        ran.key = job.key("charge")
        try:
            found = act(job.http)
            ran.result = await found if hasattr(found, "__await__") else found
        except Exception as problem:
            ran.problem = problem

    app.job(name="act", attempts=1)(blocking if colour == "sync" else awaited)
    app.enqueue("act")
    app.work()
    app.close()
    return ran


@dataclass
class Sent:
    """What a relay did, and what it gave up."""

    relayed: Relayed
    dead: list[DeadMessage]

    @property
    def outcome(self) -> str:
        """The one thing that became of the one message, however often it was tried."""
        counts = {name: getattr(self.relayed, name) for name in ("sent", "retried", "dead")}
        [outcome] = [name for name, count in counts.items() if count]
        assert outcome == "retried" or counts[outcome] == 1  # the next try may come at once
        return outcome

    @property
    def reason(self) -> str:
        """Why the one message is dead."""
        [letter] = self.dead
        assert letter.failure is not None
        return letter.failure.message


def sent(
    egress: Egress, url: str, *, app: duly.Duly | None = None, times: int = 1, **options: Any
) -> Sent:
    """Stage a message, and relay until nothing can be sent now."""
    app = app or duly.Duly("memory:", egress=egress)
    for _ in range(times):
        app.send(url, **({"json": {"paid": True}} | options))
    # In asyncio's own event loop: the hook of the tests does not see what others connect to.
    return Sent(asyncio.run(relaying(app)), app.outbox.dead())


async def relaying(app: duly.Duly) -> Relayed:
    """One message after another to each destination, until nothing can be sent now."""
    try:
        return await app.aio.relay(per_destination=1)
    finally:
        await app.store.aclose_loop()
