"""Whatever a genuine sender writes is taken or refused, never an error, alike on every store."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.receiver.senders import PAID
from tests.receiver.subjects import KINDS, Case, DatabaseOf
from tests.stores.join.sqlite_handles import path_of

if TYPE_CHECKING:
    from tests.conftest import HandClock
    from tests.receiver.drivers import Answer, ServerName
    from tests.receiver.subjects import Subject, Way

pytestmark = pytest.mark.slow

STRANGE = [
    "a", "A", "a ", " a", "a\n", "é", "e\u0301", "a\u200b", "\u0430", "😀", "\x7f", "a\0", "\0",
    "\ud800", "", "1", "01", "1.0", "'; drop table duly_claims; --", "%s %(a)s :a $1 ? {}",
    "body_" + "0" * 64, "x" * 4096, "x" * 4097, "é" * 2048, "é" * 2049, "x" * 20_000,
]  # fmt: skip
NUMBERS: list[object] = [0, 1, -1, 1.5, 10**30, True, None, [], {}, ["a"]]
BODIES = [
    b"", b"\xff\xfe", b"\0", b"{", b"null", b"NaN", b'{"id":NaN}', b'{"id":1e999}', b'"text"', b"5",
    b"[" * 5000, b"[" * 50 + b"]" * 50, b"[" * 500 + b"]" * 500, b'{"a":' * 90 + b"1" + b"}" * 90,
    b'{"id":"a","id":"b"}', b'{"id":' + b"9" * 5000 + b"}", b"\xef\xbb\xbf{}", PAID * 2,
    b'{"id":"\xff"}', b'{"type":"\xff","id":"x"}',
]  # fmt: skip
TIMES: list[object] = [
    "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999-23:59", "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z", "not a time", "2026-01-01", 0, -1, 10**16, 10**40, 1e300, True, "inf",
    "nan", "2026-01-01T00:00:00.1234567Z",
]  # fmt: skip


def written(**members: Any) -> bytes:
    return json.dumps(members).encode()


@pytest.fixture
def places(request: pytest.FixtureRequest) -> dict[str, DatabaseOf]:
    """A database of each kind."""
    file: str = request.getfixturevalue("sqlite_url")
    Path(path_of(file)).write_bytes(request.getfixturevalue("settled_sqlite"))
    direct: str = request.getfixturevalue("settled_postgres")
    return {
        "sqlite": DatabaseOf(file, file),
        "memory": DatabaseOf("memory:", ""),
        "postgres": DatabaseOf(direct, direct),
    }


async def in_bodies(subject: Subject, clock: HandClock) -> list[Answer]:
    """Ids, types and times as Stripe writes them, which are signed."""
    stripe = subject.source("stripe", now=clock, window=None)
    bodies = [written(id=id, type="a") for id in (*STRANGE, *NUMBERS)]
    bodies += [written(id=f"t{n}", type=one) for n, one in enumerate([*STRANGE, *NUMBERS])]
    bodies += [written(id=f"c{n}", type="a", created=one) for n, one in enumerate(TIMES)]
    return [await stripe.send(body) for body in [*bodies, *BODIES]]


async def in_headers(subject: Subject, clock: HandClock) -> list[Answer]:
    """Ids and types as GitHub writes them, in headers that are not signed."""
    hub = subject.source("github", now=clock)
    answers = []
    for number, text in enumerate(STRANGE):
        # What HTTP cannot carry, a server refuses before anybody sees it.
        value = text.encode("utf-8", "surrogatepass").decode("latin-1").strip()
        if any(character in value for character in "\0\n") or len(value) > 8000:
            continue
        request = hub.request(written(number=number), type="push")
        for name in ("X-GitHub-Delivery", "X-GitHub-Event"):
            answers.append(
                await subject.ask(replace(request, headers={**request.headers, name: value}))
            )
    return answers


@pytest.mark.parametrize(
    ("server", "way"), [("asgi", "deferred"), ("wsgi", "inline"), ("asgi", "inline-async")]
)
@pytest.mark.parametrize("sent", [in_bodies, in_headers], ids=["in bodies", "in headers"])
async def test_odd_input_is_answered_alike_on_every_store_and_never_with_an_error(
    places: dict[str, DatabaseOf], clock: HandClock, server: ServerName, way: Way, sent: Any
) -> None:
    told = {}
    for kind in KINDS:
        async with Case(kind, server, way).open(places[kind], clock) as subject:
            answers = await sent(subject, clock)
            told[kind] = [(answer.status, answer.json) for answer in answers]

    assert told["sqlite"] == told["memory"] == told["postgres"]
    assert {status for status, _ in told["sqlite"]} == {200}


async def test_ids_that_look_alike_are_different_events(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        stripe = subject.source("stripe", now=clock)
        answers = [await stripe.send(written(id=id, type="a")) for id in STRANGE]
        again = [await stripe.send(written(id=id, type="a")) for id in STRANGE]

        assert {answer.said for answer in answers} == {"accepted"}
        assert {answer.said for answer in again} == {"duplicate"}
        assert len(stripe.worked()) == len(STRANGE)
        kept = {event.event_id for event in subject.records.events(stripe.name)}
        assert {"a", "A", "a ", "é", "e\u0301", "x" * 4096, "é" * 2048} <= kept


async def test_a_body_that_cannot_be_read_is_kept_byte_for_byte(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        stripe = subject.source("stripe", now=clock)
        for body in BODIES:
            assert (await stripe.send(body)).status == 200, body[:20]
        kept = [event.body for event in subject.records.events(stripe.name)]

    assert Counter(kept) == Counter(BODIES)
    if woven.way != "deferred":
        unread = [
            event for event in subject.seen if event.body in (b"NaN", b"\xff\xfe", b"[" * 5000)
        ]
        assert [event.json for event in unread] == [None, None, None]


async def test_a_time_beyond_the_calendar_is_no_error(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        shop = subject.source(now=clock, window=None)
        for number, time in enumerate(TIMES):
            answer = await shop.send(written(type="a", timestamp=time), id=f"evt_{number}")
            assert (answer.status, answer.said) == (200, "accepted"), time
        assert len(shop.worked()) == len(TIMES)
