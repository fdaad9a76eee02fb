"""A request that two readers could take for two different ones is refused, and nothing behind it.

RFC 9112 says what a server must not accept; the parser of the server lets some of it pass.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from duly.server import protocol
from duly.server.framing import find_foreign_targets
from tests.server.hostile.connections import Connection, Request, exchange_pieces
from tests.server.hostile.test_upgrade import HEALTHY, OFFERS, exchange_in_two, frame_body, proof_of
from tests.server.hostile.wire import BODY, delivery, exchange, request

if TYPE_CHECKING:
    from tests.server.hostile.servers import Server

pytestmark = pytest.mark.slow

LINE = "POST /gitlab HTTP/1.1"
HOST = "Host: duly.test"
LENGTH = f"Content-Length: {len(BODY)}"
CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)


def head_of_codings(*values: str) -> list[str]:
    """A head whose body is said to be coded so."""
    return [LINE, HOST, *[f"Transfer-Encoding: {value}" for value in values]]


HEADS = {
    "no Host": (400, [LINE, LENGTH]),
    "two Hosts": (400, [LINE, HOST, "host: other.test", LENGTH]),
    "the same Host twice": (400, [LINE, HOST, HOST, LENGTH]),
    "two Hosts in one": (400, [LINE, "Host: duly.test other.test", LENGTH]),
    "a Host with a path": (400, [LINE, "Host: duly.test/x", LENGTH]),
    "a Host with a user": (400, [LINE, "Host: me@duly.test", LENGTH]),
    "HTTP/2.0": (400, ["POST /gitlab HTTP/2.0", HOST, LENGTH]),
    "HTTP/0.9": (400, ["POST /gitlab HTTP/0.9", HOST, LENGTH]),
    "HTTP/1.9": (400, ["POST /gitlab HTTP/1.9", HOST, LENGTH]),
    "RTSP/1.0": (400, ["POST /gitlab RTSP/1.0", HOST, LENGTH]),
    "RTSP/1.1": (400, ["POST /gitlab RTSP/1.1", HOST, LENGTH]),
    "RTSP after spaces": (400, ["POST /gitlab   RTSP/1.0", HOST, LENGTH]),
    "gzip, chunked": (501, head_of_codings("gzip, chunked")),
    "gzip, then chunked": (501, head_of_codings("gzip", "chunked")),
    "nothing, chunked": (501, head_of_codings(", chunked")),
    "chunked, gzip": (400, head_of_codings("chunked, gzip")),
    "chunked twice": (400, head_of_codings("chunked, chunked")),
    "gzip": (400, head_of_codings("gzip")),
    "chunks before HTTP/1.1": (400, ["POST /gitlab HTTP/1.0", HOST, "Transfer-Encoding: chunked"]),
}
UPGRADE = [f"{name}: {value}" for name, value in OFFERS["h2c"]]


@pytest.mark.parametrize("upgrade", [(), UPGRADE], ids=["plain", "upgrade"])
@pytest.mark.parametrize("kind", HEADS)
def test_a_faulty_head_is_refused_once_and_the_connection_is_closed(
    server: Server, kind: str, upgrade: list[str]
) -> None:
    status, head = HEADS[kind]
    proof = [f"{name}: {value}" for name, value in proof_of("gitlab", kind, BODY)]
    raw = "\r\n".join([*head, *proof, *upgrade, "", ""]).encode()
    body = CHUNKS if any("Transfer" in line for line in head) else BODY
    found = exchange_in_two(server, raw, body + HEALTHY)
    assert [(answer.status, answer.closes) for answer in found] == [(status, True)]
    assert found[0].said in ("MALFORMED", "NOT_IMPLEMENTED")


@pytest.mark.parametrize(
    "host", ["", "duly.test:8000", "127.0.0.1", "[::1]:8000", "hooks_1.duly.test.", "x:"]
)
def test_a_host_may_be_anything_that_names_one(server: Server, host: str) -> None:
    raw = f"GET /healthz HTTP/1.1\r\nHost: {host} \r\nConnection: close\r\n\r\n".encode()
    assert [answer.status for answer in exchange(server.address, raw)] == [200]


def test_http_1_0_needs_no_host(server: Server) -> None:
    found = exchange(server.address, b"GET /healthz HTTP/1.0\r\n\r\n")
    assert [(answer.status, answer.closes) for answer in found] == [(200, True)]


def test_what_cannot_be_read_does_not_take_the_answer_of_the_delivery_before_it(
    server: Server,
) -> None:
    found = exchange(server.address, delivery("before") + b"\0\0\0\0\r\n\r\n")
    assert [answer.said for answer in found] == ["accepted"]


BAD_CHUNK = request("POST", "/bad", [("transfer-encoding", "chunked")], b"5\r\nabcde\r\nzz\r\n")
GOOD = request("POST", "/good", [("content-length", "2")], b"ok")


async def test_chunks_that_are_none_are_refused_at_once_and_in_their_turn() -> None:
    seen, found = await exchange_pieces([BAD_CHUNK, GOOD])
    assert (seen, [answer.status for answer in found]) == ([], [400])
    for at in range(1, len(BAD_CHUNK)):
        seen, found = await exchange_pieces([GOOD + BAD_CHUNK[:at], BAD_CHUNK[at:] + GOOD])
        assert seen == [Request("POST", "/good", b"ok")]
        assert [answer.status for answer in found] == [200, 400], at


async def test_a_refused_head_is_answered_after_the_requests_before_it() -> None:
    odd = request("POST", "/odd", [("host", "two"), ("content-length", "2")], b"no")
    async with Connection(patient=True) as connection:
        await connection.hand([GOOD + odd + GOOD])
        await connection.until(lambda: len(connection.seen) == 1)
        connection.go.set()
        found = await connection.answers()
    assert [(answer.status, answer.closes) for answer in found] == [(200, False), (400, True)]
    assert len(connection.seen) == 1


RTSP = GOOD.replace(b"/good HTTP/1.1", b"/odd RTSP/1.0")


@pytest.mark.parametrize("method", ["GET", "OPTIONS", "DESCRIBE", "SOURCE"])
@pytest.mark.parametrize("protocol", ["RTSP/1.0", "ICE/1.0"])
async def test_no_method_is_served_in_another_protocol(method: str, protocol: str) -> None:
    odd = f"{method} /odd {protocol}\r\nHost: duly.test\r\n\r\n".encode()
    seen, found = await exchange_pieces([odd])
    assert (seen, [(answer.status, answer.closes) for answer in found]) == ([], [(400, True)])


async def test_another_protocol_is_refused_however_its_line_arrives() -> None:
    assert RTSP != GOOD
    for at in range(1, len(RTSP)):
        seen, found = await exchange_pieces([GOOD + RTSP[:at], RTSP[at:] + GOOD])
        assert seen == [Request("POST", "/good", b"ok")]
        assert [answer.status for answer in found] == [200, 400], at
    seen, found = await exchange_pieces([RTSP[at : at + 1] for at in range(len(RTSP))])
    assert (seen, [answer.status for answer in found]) == ([], [400])


async def test_a_body_that_tells_of_another_protocol_is_a_body() -> None:
    told = b"POST /talk RTSP/1.0\r\n"
    talk = request("POST", "/talk", [("content-length", str(len(told)))], told)
    seen, found = await exchange_pieces([talk, talk])
    assert [one.body for one in seen] == [told, told]
    assert [answer.status for answer in found] == [200, 200]


async def test_a_long_target_beside_the_name_of_another_protocol_costs_next_to_nothing() -> None:
    """Anybody can send it, and an expression made of such a target takes a moment to compile."""
    target = "/" + "-" * 60_000
    odd = request("GET", target, [("x", "RTSP/1.0")], b"")
    began = time.process_time()
    seen, found = await exchange_pieces([odd.replace(b"/-", b"/%d-" % n) for n in range(8)])
    took = time.process_time() - began
    assert (len(seen), [answer.status for answer in found]) == (8, [200] * 8)
    assert took < 0.5, f"{took:.2f} s of computing for 8 requests"


async def test_a_trailer_is_no_header() -> None:
    more, body = frame_body("chunks", b"ok")
    ending = body[:-2] + b"host: other\r\nx-forwarded-for: 127.0.0.1\r\n\r\n"
    async with Connection() as connection:
        await connection.hand([request("POST", "/x", more, ending) + GOOD])
        assert len(await connection.answers()) == 2
    assert [name for name, _ in connection.headers[0]] == [b"host", b"transfer-encoding"]


async def test_after_a_trailer_that_ends_the_connection_it_is_closed() -> None:
    """The parser reads nothing more then: a later request was kept waiting for its answer."""
    more, body = frame_body("chunks", b"ok")
    ending = body[:-2] + b"connection: close\r\n\r\n"
    async with Connection() as connection:
        await connection.hand([request("POST", "/x", more, ending)])
        await connection.until(lambda: connection.over)
        assert len(connection.seen) == 1


@pytest.mark.parametrize("piece", [b"x: " + b"y" * 1000, b"y" * 1000], ids=["many", "one"])
async def test_trailers_without_end_are_refused_at_the_bound_of_headers(piece: bytes) -> None:
    more, body = frame_body("chunks", b"ok")
    head = request("POST", "/x", more, body[:-2] + b"t: ")
    line = piece + b"\r\n" if b":" in piece else piece
    first = b"y\r\n" if b":" in piece else b""
    seen, found = await exchange_pieces([head, first, *[line] * 70])
    assert (seen, [answer.status for answer in found]) == ([], [431])


async def test_many_requests_in_one_piece_are_not_each_looked_for_in_all_of_it() -> None:
    one = GOOD.replace(b"\r\n\r\n", b"\r\nx: RTSP/\r\n\r\n", 1)
    looked: list[int] = []

    def look(received: bytes, *, first: bool) -> frozenset[bytes]:
        looked.append(len(received))
        return find_foreign_targets(received, first=first)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocol, "find_foreign_targets", look)
        seen, found = await exchange_pieces([one * 50])
    assert len(seen) == len(found) == 50
    assert len(looked) == 2  # for the request that begins the piece, and for all behind it
