"""A request that is cancelled loses and doubles nobody's delivery, its own included.

Cancellation is delivered at every await that a request passes, one run for each.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from duly.webhooks.sign import Signed
from tests.receiver.faults.books import EFFECTS, Books
from tests.receiver.faults.doors import Answer, Message, asked, scope_of
from tests.receiver.faults.gates import gated, queued
from tests.receiver.faults.shops import Mode, Senders, shop_app, signed
from tests.receiver.faults.test_poisoned_batches import REFUSING
from tests.support.cancelling import cancelled_at

pytestmark = pytest.mark.slow

# A connection that was not given back would soon be missed.
CONNECTIONS = 2
NEIGHBOURS = 3


class Loop(Senders):
    """An application inside the test's own event loop."""

    def __init__(self, url: str, mode: Mode) -> None:
        super().__init__()
        self.books = Books(url)
        self.mode = mode
        self.app = shop_app(url, mode, connections=CONNECTIONS)
        if self.books.is_sqlite:
            self.app.store.open()
        self.books.ask(EFFECTS)

    async def ask(self, delivery: Signed) -> Answer:
        """One request."""
        answer = await asked(self.app, delivery)
        self.heard(delivery, answer)
        return answer

    async def end(self) -> None:
        """Nothing is held, nothing is missing, nothing is left."""
        await asyncio.to_thread(self.books.idle)
        await self.app.aclose()
        self.books.check(self.sent, self.told, inline=self.mode != "deferred")
        await asyncio.to_thread(self.books.alone)


async def test_a_request_cancelled_at_any_await_harms_nobody(url: str, mode: Mode) -> None:
    loop = Loop(url, mode)
    await loop.ask(loop.delivery())
    suspension, cancelled = 0, True
    while cancelled:
        suspension += 1
        cancelled = await cancelled_among_others(loop, suspension)
    assert suspension > 1, "nothing was cancelled"
    await loop.end()


async def cancelled_among_others(loop: Loop, suspension: int) -> bool:
    """Cancel one of several requests at its n-th await; whether it came so far."""
    one = loop.delivery(f"evt_cancelled_{suspension}")
    others = [loop.delivery(f"evt_{suspension}_{n}") for n in range(NEIGHBOURS)]
    async with asyncio.timeout(20):
        answers = [asyncio.create_task(loop.ask(other)) for other in others]
        cancelled = await came_so_far(suspension, loop.ask(one))
        assert {(await answer).said for answer in answers} == {"accepted"}
        again = await loop.ask(one)
        assert again.said in ("accepted", "duplicate"), again
        assert (await loop.ask(one)).said == "duplicate"
    return cancelled


async def came_so_far(suspension: int, request: Coroutine[Any, Any, Answer]) -> bool:
    """Cancel a request at its n-th await; whether there was one.

    One whose commit was on its way may still be answered: it is true then.
    """

    async def run() -> int | None:
        return await cancelled_at(suspension, request)

    task = asyncio.create_task(run())
    await asyncio.wait([task])
    return task.cancelled() or task.result() is not None


async def test_a_request_cancelled_while_it_is_received_alone_harms_nobody(url: str) -> None:
    loop = Loop(url, "deferred")
    await loop.ask(loop.delivery())
    for statement in REFUSING[loop.books.is_sqlite]:
        loop.books.ask(statement)
    suspension, cancelled = 0, True
    while cancelled:
        suspension += 1
        poison = asyncio.create_task(loop.ask(signed(f"poison_{suspension}", "poison")))
        cancelled = await cancelled_among_others(loop, suspension)
        assert (await poison).come_again
    assert suspension > 3, "it was not received alone"
    await loop.end()


async def test_one_cancelled_before_its_batch_is_taken_is_not_written(url: str) -> None:
    loop = Loop(url, "deferred")
    gate = gated(loop.app, "asgi")
    await loop.ask(loop.delivery())
    gate.shut()
    first = [await begun(loop.ask(loop.delivery())) for _ in range(2)]
    await asyncio.to_thread(gate.full)
    one, *others = (loop.delivery() for _ in range(4))
    cancelled = await begun(loop.ask(one))
    waiting = [await begun(loop.ask(other)) for other in others]
    cancelled.cancel()
    gate.open()
    assert {(await answer).said for answer in [*first, *waiting]} == {"accepted"}
    assert cancelled.cancelled()
    assert (await loop.ask(one)).said == "accepted"
    await loop.end()


async def test_one_cancelled_while_its_batch_is_under_way_is_a_duplicate_then(url: str) -> None:
    loop = Loop(url, "deferred")
    gate = gated(loop.app, "asgi")
    await loop.ask(loop.delivery())
    gate.shut()
    one, *others = (loop.delivery() for _ in range(4))
    cancelled, *waiting = [asyncio.create_task(loop.ask(each)) for each in (one, *others)]
    await asyncio.to_thread(gate.full, 1)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    gate.open()
    assert {(await answer).said for answer in waiting} == {"accepted"}
    assert (await loop.ask(one)).said == "duplicate"
    await loop.end()


async def begun(request: Coroutine[Any, Any, Answer]) -> asyncio.Task[Answer]:
    """A request that has come to wait, in a batch of its own where there is room."""
    task = asyncio.create_task(request)
    for _ in range(5):
        await asyncio.sleep(0)
    return task


def test_requests_that_wait_while_their_event_loop_ends_are_taken_by_the_next(url: str) -> None:
    loop = Loop(url, "deferred")
    gate = gated(loop.app, "asgi")
    deliveries = [loop.delivery() for _ in range(20)]

    async def cut_short() -> None:
        await loop.ask(loop.delivery())
        gate.shut()
        for delivery in deliveries:
            tasks.append(await begun(loop.ask(delivery)))
        await asyncio.to_thread(queued, loop.app, "asgi", 18)

    async def go_on() -> None:
        answers = await asyncio.gather(*map(loop.ask, deliveries))
        assert {answer.said for answer in answers} <= {"accepted", "duplicate"}
        await loop.end()

    tasks: list[asyncio.Task[Answer]] = []
    asyncio.run(cut_short())
    assert all(task.cancelled() for task in tasks)
    gate.open()
    asyncio.run(go_on())


async def test_a_client_that_hangs_up_while_it_sends_leaves_nothing(url: str) -> None:
    loop = Loop(url, "deferred")
    await loop.ask(loop.delivery())
    delivery = signed("evt_half")
    messages: list[Message] = [
        {"type": "http.request", "body": delivery.body[:10], "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        pytest.fail("nobody is listening")

    await loop.app(scope_of(delivery, "/shop"), receive, send)
    assert loop.app.router.memory_used == 0, "its bytes are still counted"
    await loop.end()
