"""A name server that hangs costs the one call that asked it, and no other."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import httpx
import pytest

from duly import Egress
from duly.http_client.async_transport import AsyncGuardedTransport
from tests.http_client.callers import COLOURS, call, in_a_job, sent
from tests.http_client.names import Names, as_the_system
from tests.http_client.villains import answers_every_request, living
from tests.support.processes.leading import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

# More than any pool of threads that Python makes by itself.
SLOW = 40
SOON = Egress(deadline=timedelta(seconds=0.3))


class Hanging:
    """Answers nothing while its test runs."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def __call__(self) -> list[str]:
        self.released.wait(2 * PATIENCE)
        return []


@pytest.fixture
def hang() -> Iterator[Hanging]:
    made = Hanging()
    yield made
    made.released.set()


@pytest.mark.parametrize("colour", COLOURS)
def test_a_resolver_that_hangs_is_left_behind_at_the_deadline(colour: str, hang: Hanging) -> None:
    begun = time.monotonic()
    with pytest.raises(httpx.ConnectTimeout, match=r"shop\.example was not resolved in time"):
        call(colour, SOON, "https://shop.example/", resolver=Names(shop_example=hang))

    # The end of the event loop waits for it no more than the call did.
    assert time.monotonic() - begun < PATIENCE


@pytest.mark.parametrize("colour", COLOURS)
def test_a_job_is_not_held_by_a_resolver_that_hangs(
    colour: str, hang: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_the_system(monkeypatch, Names(shop_example=hang))
    begun = time.monotonic()
    ran = in_a_job(colour, SOON, lambda http: http.get("https://shop.example/"))

    assert isinstance(ran.problem, httpx.ConnectTimeout)
    assert time.monotonic() - begun < PATIENCE


def test_a_relay_is_not_held_by_a_resolver_that_hangs(
    hang: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_the_system(monkeypatch, Names(shop_example=hang))
    begun = time.monotonic()

    assert sent(SOON, "https://shop.example/hook").outcome == "retried"
    assert time.monotonic() - begun < PATIENCE


def test_names_that_hang_keep_no_other_name_waiting(hang: Hanging) -> None:
    asked = threading.Barrier(SLOW + 1)

    def hang_once_all_are_there() -> list[str]:
        asked.wait(PATIENCE)
        return hang()

    async def crowd(egress: Egress, good: str, names: Names) -> int:
        guarded = AsyncGuardedTransport(egress, resolver=names)
        async with httpx.AsyncClient(transport=guarded, timeout=None) as client:
            urls = [f"https://slow{number}.example/" for number in range(SLOW)]
            slow = [asyncio.create_task(client.get(url)) for url in urls]
            await asyncio.to_thread(asked.wait, PATIENCE)
            response = await client.get(good)
            hang.released.set()
            await asyncio.gather(*slow, return_exceptions=True)
            return response.status_code

    others = {f"slow{number}_example": hang_once_all_are_there for number in range(SLOW)}
    with living(answers_every_request) as den:
        names = Names(shop_example=[["127.0.0.1"]], **others)
        url = f"http://shop.example:{den.port}"
        assert asyncio.run(crowd(Egress(allow=[url]), url, names)) == 200
