"""What becomes of a message and of a call where the receiver means harm: in time, and in memory."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import httpx
import pytest

import duly
from duly import Egress
from tests.http_client import villains
from tests.http_client.callers import COLOURS, call, sent
from tests.http_client.villains import Den, living
from tests.support.growth import LOOKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.http_client.villains import Villain

# For villains that only a deadline ends; the others never come near to theirs.
SOON = timedelta(seconds=0.8)
LATER = timedelta(seconds=30)
# A message whose answer comes in pieces costs ten times a usual one; without a bound, thousands.
MANY_PIECES = 50
# Who holds a call this long holds it for ever.
FOR_EVER = 15.0
# Beyond what a request costs with all that it imports, and far below what a villain sends.
MEMORY = 8_000_000


@dataclass
class Expected:
    """What follows from a villain: for a message, and for a call of a job."""

    message: str
    call: type[Exception] | int


LATE = Expected("retried", httpx.TimeoutException)
BROKEN = Expected("retried", httpx.TransportError)
# The status was success: the relay wants to know no more, however the rest breaks or drips.
LATE_AFTERWARDS = Expected("sent", httpx.TimeoutException)
BROKEN_AFTERWARDS = Expected("sent", httpx.TransportError)
VILLAINS: dict[Villain, Expected] = {
    villains.never_answers: LATE,
    villains.trickles_its_headers: LATE,
    villains.pauses_inside_its_headers: LATE,
    villains.talks_another_protocol: LATE,
    villains.closes_at_once: BROKEN,
    villains.resets_at_once: BROKEN,
    villains.resets_inside_its_headers: BROKEN,
    villains.never_ends_its_headers: BROKEN,
    villains.never_ends_one_header: BROKEN,
    villains.packs_its_transfer: BROKEN,
    villains.talks_garbage: BROKEN,
    # Each would be a little work, and all of them the work of the whole process.
    villains.says_continue_for_ever: BROKEN,
    villains.switches_protocols: BROKEN,
    villains.claims_two_lengths: BROKEN,
    villains.claims_a_negative_length: BROKEN,
    villains.answers_with_no_status: BROKEN,
    villains.trickles_its_body: LATE_AFTERWARDS,
    villains.claims_a_longer_body: LATE_AFTERWARDS,
    villains.chops_its_body: LATE_AFTERWARDS,
    villains.resets_inside_its_body: BROKEN_AFTERWARDS,
    villains.closes_inside_its_body: BROKEN_AFTERWARDS,
    villains.never_ends_one_chunk_size: BROKEN_AFTERWARDS,
    villains.breaks_its_chunks: BROKEN_AFTERWARDS,
    villains.never_ends_its_body: Expected("sent", httpx.ReadError),
    villains.never_ends_its_chunks: Expected("sent", httpx.ReadError),
    villains.packs_a_bomb: Expected("sent", httpx.DecodingError),
    villains.says_continue_first: Expected("sent", 200),
    villains.answers_twice: Expected("sent", 200),
    villains.claims_a_shorter_body: Expected("sent", 200),
    villains.answers_with_a_strange_status: Expected("retried", 999),
    villains.redirects_with_a_novel: Expected("dead", 302),
}
NAMES = [one.__name__ for one in VILLAINS]


# Who sends more than anybody should keep.
FLOODS = [
    villains.never_ends_its_body,
    villains.never_ends_its_chunks,
    villains.never_ends_one_chunk_size,
    villains.never_ends_its_headers,
    villains.never_ends_one_header,
    villains.says_continue_for_ever,
    villains.packs_a_bomb,
]


def guard(den: Den, *, late: bool) -> Egress:
    return Egress(allow=[den.origin], deadline=SOON if late else LATER)


@contextmanager
def in_time() -> Iterator[None]:
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < FOR_EVER


@contextmanager
def in_little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < MEMORY


@pytest.mark.parametrize("villain", VILLAINS, ids=NAMES)
def test_a_message_to_a_villain_ends_as_it_should(villain: Villain) -> None:
    with living(villain) as den, in_time():
        found = sent(guard(den, late=VILLAINS[villain] is LATE), den.url)

    assert found.outcome == VILLAINS[villain].message
    assert len(den.requests) == max(found.relayed.retried, 1)


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("villain", VILLAINS, ids=NAMES)
def test_a_call_to_a_villain_ends_as_it_should(villain: Villain, colour: str) -> None:
    expected = VILLAINS[villain].call
    with living(villain) as den, in_time():
        egress = guard(den, late=expected is httpx.TimeoutException)
        if isinstance(expected, int):
            [response] = call(colour, egress, den.url)
            assert response.status_code == expected
        else:
            with pytest.raises(expected):
                call(colour, egress, den.url)


@pytest.mark.parametrize("villain", FLOODS, ids=lambda villain: villain.__name__)
def test_a_flood_fills_no_memory_of_a_relay(villain: Villain) -> None:
    with living(villain) as den, in_little_memory():
        sent(guard(den, late=VILLAINS[villain] is LATE), den.url)


@pytest.mark.parametrize("colour", COLOURS)
def test_a_call_reads_no_more_than_its_limit(colour: str) -> None:
    with living(villains.never_ends_its_body) as den:
        egress = Egress(allow=[den.origin])
        with pytest.raises(httpx.ReadError, match="longer than 10,485,760 bytes"):
            call(colour, egress, den.url)

    assert den.written < 14_000_000


def test_a_relay_reads_no_more_than_its_limit() -> None:
    with living(villains.never_ends_its_body) as den:
        assert sent(Egress(allow=[den.origin]), den.url).outcome == "sent"

    assert den.written < 4_000_000


@pytest.mark.parametrize("colour", COLOURS)
def test_a_receiver_that_reads_slowly_holds_a_call_no_longer_than_its_deadline(
    colour: str,
) -> None:
    with living(villains.reads_slowly, deaf=True) as den:
        egress = Egress(allow=[den.origin], deadline=timedelta(seconds=1))
        begun = time.monotonic()
        with pytest.raises(httpx.TimeoutException):
            call(colour, egress, den.url, method="PUT", content=b"a" * 30_000_000)
        # Thirty megabytes would take it 25 seconds.
        assert time.monotonic() - begun < FOR_EVER


def test_a_receiver_that_reads_slowly_holds_a_message_no_longer_than_its_deadline() -> None:
    with living(villains.reads_slowly, deaf=True) as den:
        egress = Egress(allow=[den.origin], deadline=SOON)
        with in_time():
            assert sent(egress, den.url, json=None, data=b"a" * 1_000_000).outcome == "retried"


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("villain", [villains.answers_twice, villains.claims_a_shorter_body])
def test_what_was_sent_beyond_an_answer_is_not_the_answer_to_the_next_call(
    villain: Villain, colour: str
) -> None:
    with living(villain) as den:
        found = call(colour, Egress(allow=[den.origin]), *[den.url] * 3)

    assert [one.content for one in found] == [b"ok"] * 3
    assert len(den.connections) == 3


def test_what_was_sent_beyond_an_answer_is_not_the_answer_to_the_next_message() -> None:
    def refuses_the_second(connection: villains.Connection) -> None:
        if len(den.requests) == 1:
            villains.answers_twice(connection)
        else:
            connection.write(b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n")

    with living(refuses_the_second) as den:
        relayed = sent(Egress(allow=[den.origin]), den.url, times=2).relayed

    assert (relayed.sent, relayed.dead) == (1, 1)


def test_what_a_receiver_says_beside_its_status_is_not_kept() -> None:
    def tells_secrets(connection: villains.Connection) -> None:
        connection.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 12\r\n\r\nhunter2-body")

    with living(tells_secrets) as den:
        found = sent(Egress(allow=[den.origin]), den.url)

    [letter] = found.dead
    assert "hunter2" not in repr(letter.failure)


@pytest.mark.parametrize(
    "villain", [villains.says_continue_for_ever, villains.chops_its_body], ids=["heads", "chunks"]
)
def test_many_small_pieces_do_not_stop_the_event_loop_of_a_relay(villain: Villain) -> None:
    usual = min(cost_of_relay(villains.answers_every_request) for _ in range(LOOKS))
    # Parsing goes on for as long as somebody reads: seconds of it, where nothing bounds that.
    assert min(cost_of_relay(villain) for _ in range(LOOKS)) < MANY_PIECES * usual


def cost_of_relay(villain: Villain) -> float:
    """What three messages to a receiver cost the thread of their relay."""
    with living(villain) as den:
        app = duly.Duly("memory:", egress=guard(den, late=False))
        for _ in range(3):
            app.send(den.url, json={}, attempts=1)
        return asyncio.run(processor_time(app))


async def processor_time(app: duly.Duly) -> float:
    """What a relay costs this thread."""
    begun = time.thread_time()
    await app.aio.relay()
    return time.thread_time() - begun


def test_what_is_kept_of_a_villain_is_short() -> None:
    with living(villains.redirects_with_a_novel) as den:
        assert len(sent(Egress(allow=[den.origin]), den.url).reason) < 500
    with living(villains.never_ends_one_header) as den:
        [letter] = sent(Egress(allow=[den.origin]), den.url, attempts=1).dead
    assert letter.failure is not None
    assert len(letter.failure.message) <= 2_000


def test_villains_do_not_keep_others_waiting() -> None:
    """A relay with every kind of villain at once still sends what can be sent."""
    with ExitStack() as stack:
        dens: list[Den] = [stack.enter_context(living(villain)) for villain in VILLAINS]
        good = stack.enter_context(living(villains.answers_every_request))
        origins = [den.origin for den in (*dens, good)]
        app = duly.Duly("memory:", egress=Egress(allow=origins, deadline=timedelta(seconds=3)))
        for den in dens:
            app.send(den.url, json={}, attempts=1)
        for number in range(20):
            app.send(good.url, json={"number": number})
        with in_time():
            relayed = app.relay()

    ends = [one.message for one in VILLAINS.values()]
    assert len(good.requests) == 20
    assert relayed.sent == 20 + ends.count("sent")
    assert relayed.dead == ends.count("dead") + ends.count("retried")
