"""A request that offers another protocol is a request of HTTP/1.1, from its line to its last byte.

RFC 9110, section 7.8: a server may ignore Upgrade. What it may not do is to take the body for the
next request, or a delivery without its body. A stock ``HttpClient`` of Java offers h2c with every
POST over http.
"""

from __future__ import annotations

import asyncio
import socket
import sqlite3
from contextlib import suppress
from typing import TYPE_CHECKING

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import duly
from tests.server.hostile.application import TOKEN
from tests.server.hostile.connections import Request, exchange_pieces
from tests.server.hostile.servers import serving
from tests.server.hostile.wire import BODY, PATIENCE, answers, exchange, request, signed
from tests.support.sizes import sized

if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.hostile.servers import Server
    from tests.server.hostile.wire import Answer, Pairs

pytestmark = pytest.mark.slow

OFFERS = {
    "h2c": [
        ("Connection", "Upgrade, HTTP2-Settings"),
        ("Upgrade", "h2c"),
        ("HTTP2-Settings", "AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA"),
    ],
    "websocket": [("connection", "upgrade"), ("upgrade", "websocket")],
    "several": [("UPGRADE", "TLS/1.0"), ("Connection", "keep-alive , uPgRaDe"), ("upgrade", "x")],
}
FRAMINGS = ("length", "chunks")
HEALTHY = request("GET", "/healthz", [("connection", "close")])
# A body that is a request: a reader that takes it for one would answer it.
INNER = request("POST", "/smuggled", [("content-length", "0")])


def frame_body(framing: str, body: bytes) -> tuple[Pairs, bytes]:
    """The header that says where a body ends, and the body as it is sent."""
    if framing == "length":
        return [("Content-Length", str(len(body)))], body
    half = len(body) // 2
    pieces = [b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:half], body[half:]) if part]
    return [("Transfer-encoding", "chunked")], b"".join([*pieces, b"0\r\n\r\n"])


def proof_of(source: str, event_id: str, body: bytes) -> Pairs:
    """What makes a delivery genuine: a signature of its body, or a token that is only shown."""
    if source == "gitlab":
        return list(duly.sign("gitlab", body, TOKEN, id=event_id).headers.items())
    return signed(event_id, body)


def bodies_of(server: Server, event_id: str) -> list[bytes]:
    """The bodies that are stored under an event's id."""
    connection = sqlite3.connect(server.log_file.parent / "duly.db")
    rows = connection.execute("SELECT body FROM duly_events WHERE event_id = ?", (event_id,))
    found = [body for (body,) in rows]
    connection.close()
    return found


def exchange_in_two(server: Server, first: bytes, second: bytes) -> list[Answer]:
    """Send two packets, as Java does with a head and a body; every answer to them."""
    with socket.create_connection(server.address, PATIENCE) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(first)
        with suppress(ConnectionError):  # the server has heard enough
            connection.sendall(second)
        return list(answers(connection))


@pytest.mark.parametrize("source", ["hooks", "inline", "gitlab"])
@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("offer", OFFERS)
def test_a_delivery_that_offers_another_protocol_is_received_whole_and_answered_once(
    server: Server, source: str, framing: str, offer: str
) -> None:
    event_id = f"{source}_{framing}_{offer}"
    whole = b'{"type":"paid","of":"%b"}' % event_id.encode()
    more, body = frame_body(framing, whole)
    pairs = [*OFFERS[offer], *proof_of(source, event_id, whole), *more]
    found = exchange_in_two(server, request("POST", f"/{source}", pairs), body + HEALTHY)
    assert [answer.status for answer in found] == [200, 200], found
    assert found[0].said == "accepted"
    assert bodies_of(server, event_id) == [whole]


def requests_with_upgrade() -> dict[str, bytes]:
    """One request of each kind, the next one right behind it."""
    found = {}
    for framing in FRAMINGS:
        more, body = frame_body(framing, INNER)
        found[framing] = request("POST", "/hooks", [*OFFERS["h2c"], *more], body)
    found["none"] = request("POST", "/hooks", OFFERS["h2c"])
    return {kind: raw + raw + request("GET", "/after") for kind, raw in found.items()}


@pytest.mark.parametrize("kind", [*FRAMINGS, "none"])
async def test_it_is_read_the_same_wherever_it_is_cut(kind: str) -> None:
    raw = requests_with_upgrade()[kind]
    body = b"" if kind == "none" else INNER
    wanted = [Request("POST", "/hooks", body)] * 2 + [Request("GET", "/after", b"")]
    cuts = [[raw[:at], raw[at:]] for at in range(1, len(raw))]
    for pieces in [[raw], *cuts, [bytes([byte]) for byte in raw]]:
        seen, found = await exchange_pieces(pieces)
        assert seen == wanted, pieces
        assert [answer.body for answer in found] == [body, body, b""], pieces


@pytest.mark.parametrize("target", ["/hooks", "duly.test:443"])
async def test_a_tunnel_is_refused_and_what_follows_it_is_never_read(target: str) -> None:
    raw = request("CONNECT", target, [("content-length", str(len(INNER)))], INNER) + INNER
    for at in range(1, len(raw)):
        seen, found = await exchange_pieces([raw[:at], raw[at:]])
        assert seen == []
        assert [(answer.status, answer.closes) for answer in found] == [(501, True)], at


lines = st.sampled_from(
    [
        *((), *[tuple(offer) for offer in OFFERS.values()]),
        *((("connection", "close"),), (("expect", "100-continue"),), (("te", "trailers"),)),
        *((("upgrade", "h2c"),), (("connection", "upgrade"),)),
        *((("connection", "upgrade, close"), ("upgrade", "x")),),
    ]
)
odd_lines = st.sampled_from(
    [
        *((("host", "two"),), (("transfer-encoding", "gzip, chunked"),)),
        *((("transfer-encoding", "gzip"),), (("transfer-encoding", "chunked, identity"),)),
        *((("content-length", "3"),), (("content-length", "0"),), (("content-length", "+1"),)),
        *((("transfer-encoding", "chunked"),), (("transfer-encoding", "chunked, chunked"),)),
    ]
)


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[bytes], bool]:
    """Several requests on one connection, cut into pieces, and whether all of them are sound."""
    raw, sound = b"", True
    for number in range(draw(st.integers(1, 4))):
        more, body = frame_body(
            draw(st.sampled_from(FRAMINGS)), draw(st.sampled_from([b"", b"x", INNER, BODY * 9]))
        )
        odd = draw(odd_lines) if draw(st.integers(0, 5)) == 5 else ()
        sound &= not odd
        pairs = [*draw(lines), *more, *odd]
        method = draw(st.sampled_from(["POST", "POST", "GET", "PUT"]))
        raw += request(method, f"/{number}", draw(st.permutations(pairs)), body)
    cuts = sorted(draw(st.lists(st.integers(0, len(raw)), max_size=4)))
    return [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)], sound


def read_strictly(raw: bytes) -> list[Request]:
    """What h11 reads, which holds to RFC 9112 and knows Upgrade as an offer only."""
    reader, found = h11.Connection(h11.SERVER), []
    asked, body = h11.Request(method="GET", target="/", headers=[("host", "")]), b""
    reader.receive_data(raw)
    try:
        while True:
            match reader.next_event():
                case h11.Request() as begun:
                    asked, body = begun, b""
                case h11.Data() as data:
                    body += bytes(data.data)
                case h11.EndOfMessage():
                    found.append(Request(asked.method.decode(), asked.target.decode(), body))
                    reader.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                    reader.send(h11.EndOfMessage())
                    if reader.our_state is h11.MUST_CLOSE:
                        return found
                    reader.start_next_cycle()
                case _:
                    return found
    except h11.RemoteProtocolError:
        return found


@settings(max_examples=sized(300, whole=3000), deadline=None)
@given(stream=streams())
def test_no_request_is_seen_that_a_strict_reader_would_not_see(
    stream: tuple[list[bytes], bool],
) -> None:
    pieces, sound = stream
    seen, found = asyncio.run(exchange_pieces(pieces))
    strictly = read_strictly(b"".join(pieces))
    assert seen == (strictly if sound else strictly[: len(seen)])
    last = [answer for answer in found if answer.status >= 200]
    assert [answer.body for answer in last if answer.status == 200] == [one.body for one in seen]
    assert len(last) <= len(seen) + (not sound)


@pytest.mark.parametrize("source", ["hooks", "gitlab"])
@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_server_that_drops_the_body_has_no_delivery_accepted(
    tmp_path: Path, source: str, framing: str
) -> None:
    """Plain uvicorn does, and what it makes of the body is its own; duly sees an empty one."""
    more, body = frame_body(framing, BODY)
    pairs = [*OFFERS["h2c"], *proof_of(source, "dropped", BODY), *more]
    store = f"sqlite:///{tmp_path / 'duly.db'}"
    with serving(store, tmp_path, server="uvicorn") as server:
        found = exchange(server.address, request("POST", f"/{source}", pairs, body))
        assert found
        assert {answer.status for answer in found} == {400}
        server.check_alive()
        assert bodies_of(server, "dropped") == []
