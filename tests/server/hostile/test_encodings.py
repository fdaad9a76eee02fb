"""Compressed bodies are refused unless asked for, and then never grow beyond the limit."""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING

import pytest

from tests.server.hostile.application import LARGE
from tests.server.hostile.servers import MEGABYTE
from tests.server.hostile.wire import BODY, delivery, exchange, request, signed

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.server.hostile.servers import Server
    from tests.server.hostile.wire import Answer

pytestmark = pytest.mark.slow

CLOSE = ("connection", "close")
ENCODINGS = [
    "br", "zstd", "compress", "exi", "gzip, gzip", "gzip,br", "deflate, gzip", "identity, gzip",
    "GZIP, identity", "x", "*", "gzip;q=1", "\xff", "gzip\t,", ",",
]  # fmt: skip


# Without the time in it: the processes that share the tests must all name them alike.
PACKED = gzip.compress(BODY, mtime=0)


def packed(server: Server, event_id: str, sent: bytes, encoding: str, path: str) -> Answer:
    """The answer to a delivery whose signature is that of the plain body."""
    headers = [*signed(event_id), ("content-encoding", encoding), CLOSE]
    length = ("content-length", str(len(sent)))
    [answer] = exchange(server.address, request("POST", path, [*headers, length], sent))
    return answer


def bomb(size: int) -> bytes:
    """What becomes so many zeros: one block of them, repeated. Its end is never looked at."""
    packing = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    start = packing.flush(zlib.Z_FULL_FLUSH)
    block = packing.compress(bytes(MEGABYTE)) + packing.flush(zlib.Z_FULL_FLUSH)
    return start + block * (size // MEGABYTE)


@pytest.mark.parametrize("path", ["/hooks", "/large", "/inline"])
@pytest.mark.parametrize("encoding", ["gzip", "GZip", "deflate", "br", "zstd", "x-gzip", "x"])
def test_a_compressed_body_is_refused_where_it_was_not_asked_for(
    server: Server, path: str, encoding: str
) -> None:
    answer = packed(server, "refused", gzip.compress(BODY), encoding, path)
    assert (answer.status, answer.said) == (415, "UNSUPPORTED_ENCODING")
    assert answer.headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_an_unknown_encoding_is_refused_also_where_some_are_read(
    server: Server, encoding: str
) -> None:
    answer = packed(server, "unknown", gzip.compress(BODY), encoding, "/packed")
    assert (answer.status, answer.said) == (415, "UNSUPPORTED_ENCODING")


def test_several_headers_of_encodings_are_one_unknown_encoding(server: Server) -> None:
    more = [("content-encoding", "gzip"), ("content-encoding", "identity"), CLOSE]
    [answer] = exchange(server.address, delivery("several", path="/packed", more=more))
    assert answer.status == 415


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("x-gzip", None)]
)
def test_a_compressed_body_is_verified_as_it_was_signed(
    server: Server, encoding: str, pack: Callable[[bytes], bytes] | None
) -> None:
    sent = (pack or gzip.compress)(BODY)
    assert packed(server, f"packed_{encoding}", sent, encoding, "/packed").said == "ignored"
    assert packed(server, f"packed_{encoding}", sent, encoding, "/packed").said == "duplicate"
    assert packed(server, f"packed_{encoding}", BODY, "identity", "/packed").said == "duplicate"


@pytest.mark.parametrize(
    "sent",
    [
        b"", BODY, b"\x1f\x8b", PACKED[:-1], PACKED + b"\0",
        PACKED * 2, gzip.compress(PACKED, mtime=0), b"\x78\x9c" + b"\xff" * 50,
        PACKED[:-8] + b"\0" * 8,
    ],
)  # fmt: skip
def test_a_broken_compressed_body_is_refused(server: Server, sent: bytes) -> None:
    answer = packed(server, "broken", sent, "gzip", "/packed")
    assert answer.status in (400, 403), answer
    assert answer.said in ("MALFORMED", "BAD_SIGNATURE")


@pytest.mark.parametrize(
    ("unpacked", "path", "said"),
    [
        (900 * MEGABYTE, "/packed", "TOO_LARGE"),
        (900 * MEGABYTE, "/hooks", "UNSUPPORTED_ENCODING"),
        (10_000 * MEGABYTE, "/wide", "TOO_LARGE"),
    ],
)
def test_a_bomb_is_refused_before_it_grows(
    server: Server, unpacked: int, path: str, said: str, say: Callable[[str], None]
) -> None:
    small = bomb(unpacked)
    server.forget_peak()
    before = server.memory()
    assert packed(server, "bomb", small, "gzip", path).said == said
    grown = server.memory("VmHWM") - before
    assert grown < len(small) * 3 + 3 * LARGE
    say(
        f"a bomb of {len(small) // 1024} KiB that holds {unpacked // MEGABYTE} MiB, sent to "
        f"{path}: {said}, memory grew by {grown // 1024} KiB"
    )


def test_a_ratio_that_no_text_has_is_refused_also_below_the_limit(server: Server) -> None:
    small = gzip.compress(bytes(MEGABYTE // 2))
    assert packed(server, "ratio", small, "gzip", "/packed").said == "TOO_LARGE"
