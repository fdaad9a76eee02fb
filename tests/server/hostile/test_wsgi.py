"""The same hostility against ``app.wsgi``: in this process, and through waitress as a real one."""

from __future__ import annotations

import asyncio
import gzip
import threading
import time
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest

import duly
from tests.server.hostile.application import TOKEN, application
from tests.server.hostile.crowds import healthy_meanwhile, provoked
from tests.server.hostile.gateways import Counted, answered, environ_of, genuine
from tests.server.hostile.malformed import malformed
from tests.server.hostile.servers import MEGABYTE, serving
from tests.server.hostile.test_encodings import bomb
from tests.server.hostile.wire import BODY, delivery, exchange, signed
from tests.webhooks.hostile import BODIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from duly import Duly
    from tests.server.hostile.servers import Server

pytestmark = pytest.mark.slow

CHUNK = 64 * 1024


@pytest.fixture(scope="module")
def app() -> Iterator[Duly]:
    """The application in this process."""
    app = application("memory:")
    yield app
    app.close()


def told(app: Duly, length: str | None, body: bytes = BODY) -> tuple[int, str]:
    """What a delivery that says this length is told."""
    headers = signed("lengths", body)
    if length is not None:
        headers.append(("content-length", length))
    answer = answered(app, environ_of(headers, body), checked=False)
    return answer.status, answer.said


def test_lengths_that_lie_are_refused(app: Duly) -> None:
    for length in ("-1", "+1", "0x1", "four", "1, 2", "9" * 40, "\xb2", "1 1"):
        assert told(app, length) == (400, "MALFORMED")
    assert told(app, str(len(BODY) + 1)) == (400, "MALFORMED")
    assert told(app, str(len(BODY) - 1)) == (403, "BAD_SIGNATURE")
    assert told(app, str(10**12)) == (413, "TOO_LARGE")
    assert told(app, None) == (403, "BAD_SIGNATURE")  # no length, no body: so WSGI has it
    assert told(app, "") == (403, "BAD_SIGNATURE")


def test_a_body_without_end_is_read_no_further_than_the_limit(app: Duly) -> None:
    stream = Counted(BODY, endless=True)
    environ = environ_of(signed("endless"), stream) | {"wsgi.input_terminated": True}
    assert answered(app, environ, checked=False).said == "TOO_LARGE"
    assert MEGABYTE < stream.taken <= MEGABYTE + CHUNK


def test_a_body_without_a_length_is_read_where_the_server_marks_its_end(app: Duly) -> None:
    environ = environ_of(signed("marked"), BODY) | {"wsgi.input_terminated": True}
    assert answered(app, environ).said == "accepted"


def test_a_body_that_was_announced_and_cannot_be_read_is_never_taken_for_an_empty_one(
    app: Duly,
) -> None:
    """A token says nothing of the body: without this refusal it would be an event of no bytes."""
    shown = list(duly.sign("gitlab", BODY, TOKEN, id="unread").headers.items())
    unread = environ_of([*shown, ("transfer-encoding", "chunked")], BODY) | {"PATH_INFO": "/gitlab"}
    answer = answered(app, unread)
    assert (answer.status, answer.said) == (411, "LENGTH_REQUIRED")
    offered = [*shown, ("transfer-encoding", "chunked"), ("upgrade", "h2c")]
    dropped = environ_of(offered, b"") | {"PATH_INFO": "/gitlab", "wsgi.input_terminated": True}
    answer = answered(app, dropped)
    assert (answer.status, answer.said) == (400, "MALFORMED")


def test_a_body_that_trickles_is_refused_at_the_deadline(app: Duly) -> None:
    slow = Counted(BODY, endless=True, wait=lambda: time.sleep(0.06))
    headers = [*signed("slow"), ("content-length", "1000000")]
    before, app.router.body_deadline = app.router.body_deadline, 0.1
    try:
        answer = answered(app, environ_of(headers, slow))
    finally:
        app.router.body_deadline = before
    assert (answer.status, answer.said) == (408, "TOO_SLOW")


def test_encodings_and_bombs_are_refused(app: Duly) -> None:
    for path, encoding, status in (
        ("/hooks", "gzip", 415),
        ("/packed", "br", 415),
        ("/packed", "gzip, gzip", 415),
        ("/packed", "gzip", 413),
    ):
        small = bomb(500 * MEGABYTE)
        more = {"PATH_INFO": path, "HTTP_CONTENT_ENCODING": encoding}
        assert answered(app, genuine("bomb", small) | more).status == status
    packed = gzip.compress(BODY)
    headers = [*signed("packed"), ("content-length", str(len(packed)))]
    more = {"PATH_INFO": "/packed", "HTTP_CONTENT_ENCODING": "gzip"}
    assert answered(app, environ_of(headers, packed) | more).said == "ignored"


def test_floods_of_headers_are_refused(app: Duly) -> None:
    for flood in (
        {f"HTTP_X_{number}": "y" for number in range(200)},
        {"HTTP_X": "y" * 40_000},
        {"HTTP_WEBHOOK_SIGNATURE": "v1,AA== " * 5000},
    ):
        answer = answered(app, genuine("flood") | flood)
        assert (answer.status, answer.said) == (431, "HEADERS_TOO_LARGE")
        assert "connection" not in answer.headers  # hop by hop: not an application's to set


def test_odd_bodies_are_taken_and_odd_requests_are_not(app: Duly) -> None:
    for number, body in enumerate(BODIES):
        assert answered(app, genuine(f"body_{number}", body)).said == "accepted"
    for more, status in (
        ({"PATH_INFO": "/nowhere"}, 404),
        ({"PATH_INFO": ""}, 404),
        ({"PATH_INFO": "/\xff\x00\r\n"}, 404),
        ({"REQUEST_METHOD": "PUT"}, 405),
        ({"REQUEST_METHOD": "DELETE", "PATH_INFO": "/github"}, 405),
        ({"HTTP_WEBHOOK_ID": ""}, 400),
        ({"HTTP_WEBHOOK_ID": "\xff\r\n"}, 403),
        ({"HTTP_WEBHOOK_SIGNATURE": "v1,AA=="}, 403),
    ):
        assert answered(app, genuine("odd") | more).status in (status, 400, 403), more


def test_many_threads_are_answered_each_once(app: Duly) -> None:
    said: Counter[str] = Counter()

    def deliver(number: int) -> None:
        said[answered(app, genuine(f"thread_{number % 10}")).said] += 1

    threads = [threading.Thread(target=deliver, args=[number]) for number in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {"accepted": 10, "duplicate": 90}


async def provoke_waitress(server: Server, requests: int) -> tuple[Counter[int], str]:
    seen: Counter[int] = Counter()
    numbers = iter(range(requests))

    async def client() -> None:
        for number in numbers:
            found = await provoked(server.address, malformed(Random(number), number), 0.05)
            seen.update(answer.status for answer in found)

    async with healthy_meanwhile(server.address, "healthy") as healthy:
        await asyncio.gather(*[client() for _ in range(16)])
    healthy.check(at_least=3, within=5.0)
    return seen, str(healthy)


def test_malformed_requests_break_nothing_behind_waitress(
    tmp_path: Path, say: Callable[[str], None]
) -> None:
    store = f"sqlite:///{tmp_path / 'duly.db'}"
    with serving(store, tmp_path, server="waitress") as server:
        before = server.memory()
        seen, healthy = asyncio.run(provoke_waitress(server, 1000))
        close = [("connection", "close")]
        [last] = exchange(server.address, delivery("last", more=close))
        assert last.said == "accepted"
        peak = server.memory("VmHWM")
        server.check_alive()
    assert peak - before < 60 * MEGABYTE
    assert not [status for status in seen if status >= 500 and status not in (501, 505)], seen
    say(
        f"1000 malformed requests behind waitress: {dict(seen)}; {healthy}; memory "
        f"{before // MEGABYTE} MB before, {peak // MEGABYTE} MB at most"
    )
