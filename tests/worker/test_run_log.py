"""What a worker says of each run: its end at debug, and of a failure the cause to its end."""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import duly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# As asyncio words it: what is wrong stands at the end, after two long descriptions.
FOREIGN = (
    "Task <Task pending name='Task-25' coro=<Crew._run_awaited() running at "
    f"{'/srv/shop/lib/python' * 20}> cb=[set.discard()]> got Future <Future pending "
    "cb=[BaseProtocol._on_waiter_completed()]> attached to a different loop"
)
END = "attached to a different loop"
BODY = '{"type": "order.changed", "order": "o-1", "version": %d}'


@pytest.fixture(params=["postgres", "sqlite"])
def app(request: pytest.FixtureRequest) -> Iterator[duly.Duly]:
    name = "own_postgres_url" if request.param == "postgres" else "sqlite_url"
    with closing(duly.Duly(request.getfixturevalue(name))) as made:
        yield made


def plain(job: duly.Job) -> None:
    """Ends well."""


def inside(tx: duly.Tx) -> None:
    """Ends well, in a transaction."""


async def awaited() -> None:
    """Ends well, awaited."""


def cut() -> None:
    raise RuntimeError(FOREIGN)


def chained() -> None:
    try:
        raise RuntimeError(FOREIGN)
    except RuntimeError as problem:
        raise ValueError("the order could not be booked") from problem


def runs(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said of runs, without their times."""
    told = [one.getMessage() for one in caplog.records if one.name == "duly.worker"]
    return [re.sub(r"\d+\.\d+ ms", "… ms", one) for one in told]


@pytest.mark.parametrize("handler", [plain, inside, awaited], ids=lambda one: one.__name__)
def test_a_job_that_is_done_is_told_at_debug(
    app: duly.Duly, handler: Callable[..., object], caplog: pytest.LogCaptureFixture
) -> None:
    app.job(name="pay")(handler)
    job = app.enqueue("pay")
    with caplog.at_level(logging.DEBUG, "duly.worker"):
        assert app.work().done == 1
    assert runs(caplog) == [f"job {job.id} (pay): done after … ms, attempt 1 of 1"]
    [record] = [one for one in caplog.records if one.name == "duly.worker"]
    assert record.members["milliseconds"] >= 0  # type: ignore[attr-defined]
    told = {**record.members, "milliseconds": 0}  # type: ignore[attr-defined]
    assert told == {
        "job": job.id,
        "name": "pay",
        "outcome": "done",
        "milliseconds": 0,
        "attempt": 1,
    }


def test_a_job_that_is_done_is_not_told_at_info(
    app: duly.Duly, caplog: pytest.LogCaptureFixture
) -> None:
    app.job(name="pay")(plain)
    app.enqueue("pay")
    with caplog.at_level(logging.INFO, "duly.worker"):
        assert app.work().done == 1
    assert runs(caplog) == []


@pytest.mark.parametrize("handler", [plain, inside], ids=lambda one: one.__name__)
def test_a_job_that_is_stale_is_told_at_debug(
    app: duly.Duly, handler: Callable[..., object], caplog: pytest.LogCaptureFixture
) -> None:
    secret = "whsec_" + "A" * 32
    app.source("shop", provider="standard-webhooks", secret=secret)
    app.on("shop", name="book", order=("order", "version"))(handler)
    for version in (2, 1):
        body = (BODY % version).encode()
        signed = duly.sign("standard-webhooks", body, secret)
        assert app.receive("shop", signed.headers, body).status == 200
        with caplog.at_level(logging.DEBUG, "duly.worker"):
            app.work()
    newer, older = runs(caplog)
    assert re.fullmatch(r"job \S+ \(book\): done after … ms, attempt 1 of 5", newer)
    assert re.fullmatch(r"job \S+ \(book\): stale after … ms, attempt 1 of 5", older)


@pytest.mark.parametrize("handler", [cut, chained], ids=lambda one: one.__name__)
def test_an_error_is_told_with_its_cause_to_the_end(
    app: duly.Duly, handler: Callable[..., object], caplog: pytest.LogCaptureFixture
) -> None:
    app.job(name="pay", attempts=2)(handler)
    app.enqueue("pay")
    app.work()
    [line] = [one for one in caplog.messages if "failed in attempt 1 of 2" in one]
    assert END in line
    assert " … " in line, "what was left out is said"
    assert len(line) < 900
    if handler is chained:
        assert "ValueError: the order could not be booked (cause: RuntimeError: Task" in line


async def test_what_is_logged_of_a_foreign_loop_says_so(
    app: duly.Duly, caplog: pytest.LogCaptureFixture
) -> None:
    """asyncio's own message, from a future of another loop."""
    other = asyncio.new_event_loop()
    future = other.create_future()

    async def foreign() -> None:
        await future

    app.job(name="pay")(foreign)
    await app.aio.enqueue("pay")
    await app.aio.work()
    await app.aclose()
    other.close()
    [line] = [one for one in caplog.messages if "is dead" in one]
    assert END in line
