"""What is refused writes nothing at all, and is told why in one word."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.receiver.drivers import Exchange, Request
from tests.receiver.senders import PAID
from tests.webhooks.genuine import keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import HandClock
    from tests.receiver.senders import Sender
    from tests.receiver.subjects import Case, DatabaseOf

LIMIT = 2000
HOUR = timedelta(hours=1)
Refusal = tuple[str, Request, int, str]


def forged(shop: Sender, clock: HandClock) -> Iterator[Refusal]:
    """Deliveries that are not genuine."""
    good = shop.request(id="evt_1")
    late, early = clock() - HOUR, clock() + HOUR
    bare = {"Content-Type": "application/json"}
    junk = {**good.headers, "webhook-signature": "v1,not base64!"}
    yield "another body", replace(good, body=PAID + b" "), 403, "BAD_SIGNATURE"
    yield "another secret", shop.request(seed="another"), 403, "BAD_SIGNATURE"
    yield (
        "another id",
        replace(good, headers={**good.headers, "webhook-id": "evt_2"}),
        403,
        ("BAD_SIGNATURE"),
    )
    yield "an old time", shop.request(now=late), 403, "STALE_TIMESTAMP"
    yield "a time to come", shop.request(now=early), 403, "STALE_TIMESTAMP"
    yield "no signature", replace(good, headers=bare), 403, "MISSING_SIGNATURE"
    yield "a signature that is none", replace(good, headers=junk), 403, "BAD_SIGNATURE"


def misplaced(shop: Sender) -> Iterator[Refusal]:
    """Requests that are not for a source, or not to be made of one."""
    good = shop.request(id="evt_1")
    for path in ("/", "/unknown", f"/{shop.name}/more", f"//{shop.name}", f"/{shop.name}%00"):
        yield path, replace(good, path=path), 404, "UNKNOWN_SOURCE"
    for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS"):
        yield method, replace(good, method=method), 405, "METHOD_NOT_ALLOWED"


def oversized(shop: Sender) -> Iterator[Refusal]:
    """Requests that are too large, or say that they are."""
    large = shop.request(b'"' + b"x" * LIMIT + b'"')
    good = shop.request(id="evt_1")
    many = {f"X-{number}": "1" for number in range(200)}
    yield "a large body", large, 413, "TOO_LARGE"
    yield "in chunks", replace(large, chunks=7), 413, "TOO_LARGE"
    yield "of no length", replace(large, chunks=7, length=False), 413, "TOO_LARGE"
    for told, status, code in (
        ("99999999", 413, "TOO_LARGE"),
        ("abc", 400, "MALFORMED"),
        ("-1", 400, "MALFORMED"),
        ("9" * 400, 400, "MALFORMED"),
    ):
        lying = replace(good, headers={**good.headers, "Content-Length": told})
        yield f"Content-Length {told[:9]}", lying, status, code
    yield "many headers", replace(good, headers=good.headers | many), 431, "HEADERS_TOO_LARGE"
    wide = good.headers | {"X-Wide": "x" * 40_000}
    yield "wide headers", replace(good, headers=wide), 431, "HEADERS_TOO_LARGE"


def encoded(shop: Sender) -> Iterator[Refusal]:
    """Compressed bodies, where nobody asked for them."""
    good = shop.request(id="evt_1")
    for encoding in ("gzip", "deflate", "br", "gzip, gzip", "zstd", "what"):
        headers = {**good.headers, "Content-Encoding": encoding}
        squeezed = replace(good, body=gzip.compress(PAID), headers=headers)
        yield encoding, squeezed, 415, "UNSUPPORTED_ENCODING"


@pytest.mark.promise("I4", "I13")
async def test_what_is_refused_is_told_why_and_writes_nothing(
    deferred: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with deferred.open(place, clock) as subject:
        shop = subject.source(now=clock, max_body=LIMIT)
        before = subject.records.everything()
        kinds = [forged(shop, clock), misplaced(shop), oversized(shop), encoded(shop)]
        for what, request, status, code in (one for several in kinds for one in several):
            answer = await subject.ask(request)
            assert (answer.status, answer.said) == (status, code), what
            assert set(answer.json) == {"error", "reason"}, what
            assert keys(shop.provider).receiver not in answer.body.decode()
            assert ("allow" in answer.headers) == (status == 405), what
        assert subject.records.everything() == before

        assert (await shop.send(id="evt_1")).said == "accepted"
        assert shop.worked() == [("evt_1", "handle")]


@pytest.mark.promise("I13")
async def test_what_is_refused_reaches_no_inline_handler(
    inline: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with inline.open(place, clock) as subject:
        shop = subject.source(now=clock, max_body=LIMIT)
        before = subject.records.everything()
        for what, request, status, code in forged(shop, clock):
            answer = await subject.ask(request)
            assert (answer.status, answer.said) == (status, code), what
        assert subject.records.everything() == before
        assert subject.seen == []


async def test_a_body_of_exactly_the_limit_is_taken_and_one_byte_more_is_not(
    deferred: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with deferred.open(place, clock) as subject:
        shop = subject.source(now=clock, max_body=LIMIT)
        for chunks, length in ((1, True), (3, True), (3, False)):
            fits = shop.request(b" " * LIMIT, id=f"evt_{chunks}{length}")
            over = shop.request(b" " * (LIMIT + 1), id="evt_over")
            sent = [replace(one, chunks=chunks, length=length) for one in (fits, over)]
            assert [(await subject.ask(one)).status for one in sent] == [200, 413]


async def test_a_head_request_is_answered_without_a_body(
    stored: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with stored.open(place, clock) as subject:
        shop = subject.source(now=clock)
        answer = await subject.ask(Request(f"/{shop.name}", method="HEAD"))
        assert (answer.status, answer.body) == (405, b"")
        assert answer.headers["allow"] == "POST"


async def test_a_provider_that_wants_another_status_for_forgeries_gets_it(
    stored: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with stored.open(place, clock) as subject:
        discord = subject.source("discord", now=clock)
        answer = await discord.send(b'{"type":1}', seed="another")
        assert (answer.status, answer.said) == (401, "BAD_SIGNATURE")


async def test_a_source_may_refuse_what_it_cannot_read_or_name(
    stored: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with stored.open(place, clock) as subject:
        strict = subject.source("stripe", now=clock, parse="require", missing_id="reject")
        before = subject.records.everything()
        for body in (b"", b"{", b"null", b"\xff", b"NaN", b"{}", b"[" * 5000, b'{"type":"a"}'):
            answer = await strict.send(body)
            assert (answer.status, answer.said) == (400, "MALFORMED"), body[:9]
        assert subject.records.everything() == before


async def test_a_body_that_is_shorter_than_its_length_is_no_delivery(
    deferred: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with deferred.open(place, clock) as subject:
        shop = subject.source(now=clock)
        before = subject.records.everything()
        request = shop.request(id="evt_1")
        if deferred.server == "asgi":  # the server notices, and says that the client is gone
            leaving = Exchange(replace(request, chunks=3), hang_up=True)
            await subject.app(leaving.scope(), leaving.receive, leaving.send)
            assert leaving.sent == []
        else:
            told = {**request.headers, "Content-Length": str(len(request.body) + 9)}
            answer = await subject.ask(replace(request, headers=told))
            assert (answer.status, answer.said) == (400, "MALFORMED")
        assert subject.records.everything() == before


async def test_compressed_bodies_are_read_where_a_source_allows_them(
    deferred: Case, place: DatabaseOf, clock: HandClock
) -> None:
    ways: dict[str, Callable[[bytes], bytes]] = {
        "gzip": gzip.compress,
        "x-gzip": gzip.compress,
        "deflate": zlib.compress,
        "GZIP": gzip.compress,
    }
    async with deferred.open(place, clock) as subject:
        shop = subject.source(now=clock, decompress=True)
        for number, (encoding, compress) in enumerate(ways.items()):
            request = shop.request(PAID, id=f"evt_{number}")
            headers = {**request.headers, "Content-Encoding": encoding}
            answer = await subject.ask(replace(request, body=compress(PAID), headers=headers))
            assert answer.said == "accepted", encoding
        assert {event.body for event in subject.records.events(shop.name)} == {PAID}
        plain = shop.request(PAID, id="evt_0")
        named = {**plain.headers, "Content-Encoding": "identity"}
        assert (await subject.ask(replace(plain, headers=named))).said == "duplicate"


@cache
def bombs() -> dict[str, tuple[bytes, int, str]]:
    """Compressed bodies that are too much, or broken."""
    squeezed = gzip.compress(PAID)
    return {
        "a bomb": (gzip.compress(b"0" * 20_000_000, 9), 413, "TOO_LARGE"),
        "a small bomb": (gzip.compress(b"0" * 900_000, 9), 413, "TOO_LARGE"),
        "one byte over": (gzip.compress(b'"' + b"ab" * 524_288), 413, "TOO_LARGE"),
        "cut off": (squeezed[:-5], 400, "MALFORMED"),
        "something after": (squeezed + b"x", 400, "MALFORMED"),
        "two in one": (squeezed + squeezed, 400, "MALFORMED"),
        "not compressed": (PAID, 400, "MALFORMED"),
        "nothing": (b"", 400, "MALFORMED"),
        "broken": (squeezed[:12] + b"\xff" * 20, 400, "MALFORMED"),
    }


async def test_a_compressed_body_cannot_be_more_than_a_plain_one_may(
    deferred: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with deferred.open(place, clock) as subject:
        shop = subject.source(now=clock, decompress=True)
        before = subject.records.everything()
        for what, (body, status, code) in bombs().items():
            request = shop.request(PAID)
            headers = {**request.headers, "Content-Encoding": "gzip"}
            answer = await subject.ask(replace(request, body=body, headers=headers))
            assert (answer.status, answer.said) == (status, code), what
        assert subject.records.everything() == before
