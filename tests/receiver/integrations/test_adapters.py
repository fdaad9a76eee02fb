"""What every adapter promises: raw bytes in under limits, one true answer out."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.receiver.integrations.sites import DEFERRED, INLINE, LIMIT
from tests.receiver.integrations.stands import KINDS, Kind, chunked, id_of, signed
from tests.server.hostile.wire import PATIENCE, answers, request

if TYPE_CHECKING:
    from tests.receiver.integrations.stands import Stand

pytestmark = pytest.mark.slow

everywhere = pytest.mark.parametrize("kind", KINDS, ids=str)
each_source = pytest.mark.parametrize("source", [DEFERRED, INLINE])


def told(answer: Any) -> tuple[int, str]:
    """The status of an answer and its word."""
    found = answer.json()
    return answer.status_code, found.get("status") or found["error"]


@everywhere
@each_source
def test_a_delivery_is_accepted_once_with_its_bytes_as_they_came(
    kind: Kind, source: str, stand: Stand
) -> None:
    sent = signed()

    assert told(stand.post(source, sent)) == (200, "accepted")
    assert told(stand.post(source, sent)) == (200, "duplicate")
    assert stand.events(id_of(sent)) == [sent.body]
    if source == INLINE:
        assert id_of(sent) in stand.place.notes(INLINE)
    else:
        assert stand.jobs(id_of(sent)) == ["ship"]


@everywhere
@each_source
def test_concurrent_copies_are_one_event(kind: Kind, source: str, stand: Stand) -> None:
    sent = signed()
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: told(stand.post(source, sent)), range(16)))

    assert sorted(answers) == [(200, "accepted"), *[(200, "duplicate")] * 15]
    assert len(stand.events(id_of(sent))) == 1


@everywhere
@each_source
def test_a_slash_at_the_end_is_no_redirect(kind: Kind, source: str, stand: Stand) -> None:
    sent = signed()

    assert told(stand.post(f"{source}/", sent)) == (200, "accepted")
    assert told(stand.post(source, sent)) == (200, "duplicate")


@everywhere
def test_a_tampered_body_is_refused_and_nothing_is_kept(kind: Kind, stand: Stand) -> None:
    sent = signed()

    assert told(stand.post(DEFERRED, sent, sent.body + b" ")) == (403, "BAD_SIGNATURE")
    assert stand.events(id_of(sent)) == []


@everywhere
def test_a_body_without_a_length_is_read_whole(kind: Kind, stand: Stand) -> None:
    sent = signed()

    assert told(stand.post(DEFERRED, sent, chunked(sent.body))) == (200, "accepted")
    assert stand.events(id_of(sent)) == [sent.body]


@everywhere
@pytest.mark.parametrize("declared", [True, False])
def test_a_delivery_that_offers_another_protocol_is_received_whole_or_refused(
    kind: Kind, declared: bool, stand: Stand
) -> None:
    """Some servers drop the body of such a request, which is no mistake of a middleware's."""
    sent = signed()
    pieces = b"%x\r\n%b\r\n0\r\n\r\n" % (len(sent.body), sent.body)
    length = ("content-length", str(len(sent.body)))
    framing = length if declared else ("transfer-encoding", "chunked")
    offer = [("connection", "upgrade"), ("upgrade", "h2c"), framing]
    url = urlsplit(stand.base)
    raw = request(
        "POST",
        url.path + DEFERRED,
        [*sent.headers.items(), *offer],
        sent.body if declared else pieces,
    )
    with socket.create_connection(("127.0.0.1", url.port or 0), PATIENCE) as connection:
        connection.sendall(raw)
        status = next(answers(connection)).status
    assert stand.events(id_of(sent)) == ([sent.body] if status == 200 else [])
    assert status == (200 if kind.server == "waitress" else 400)


@everywhere
@pytest.mark.parametrize("declared", [True, False])
def test_a_body_beyond_the_limit_is_refused(kind: Kind, declared: bool, stand: Stand) -> None:
    body = b'{"padding":"%s"}' % (b"x" * LIMIT)
    sent = signed(body)

    content = body if declared else chunked(body)
    assert told(stand.post(DEFERRED, sent, content)) == (413, "TOO_LARGE")
    assert stand.events(id_of(sent)) == []


@everywhere
def test_another_method_is_refused(kind: Kind, stand: Stand) -> None:
    for method in ("GET", "PUT", "DELETE"):
        assert stand.ask(method, DEFERRED).status_code == 405
    assert stand.ask("HEAD", DEFERRED).content == b""


@everywhere
def test_an_unknown_source_is_not_found(kind: Kind, stand: Stand) -> None:
    assert stand.post("nobody", signed()).status_code == 404


@pytest.mark.parametrize(
    ("kind", "how"), [(kind, how) for kind in KINDS for how in kind.meddling[0]], ids=str
)
@each_source
def test_a_body_that_was_read_and_kept_is_verified_as_it_came(
    kind: Kind, how: str, source: str, stand: Stand
) -> None:
    sent = signed()

    assert told(stand.post(source, sent, meddle=how)) == (200, "accepted")
    assert told(stand.post(source, sent)) == (200, "duplicate")
    assert stand.events(id_of(sent)) == [sent.body]


@pytest.mark.parametrize(
    ("kind", "how"), [(kind, how) for kind in KINDS for how in kind.meddling[1]], ids=str
)
@each_source
def test_a_body_that_is_gone_is_said_plainly_and_the_retry_works(
    kind: Kind, how: str, source: str, stand: Stand
) -> None:
    sent = signed()
    answer = stand.post(source, sent, meddle=how)

    assert told(answer) == (500, "BODY_TAKEN")
    assert "exclude this path" in answer.json()["reason"]
    assert stand.said(f"duly a delivery to {source} cannot be verified")
    assert stand.events(id_of(sent)) == []
    assert told(stand.post(source, sent)) == (200, "accepted")
