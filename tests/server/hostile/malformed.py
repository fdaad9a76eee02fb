"""Requests as no client should send them, made by a seeded generator: the same ones every time.

Half of them are genuine deliveries that something happened to, so that they get further than a
parser's first line; the others never were requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.server.hostile.wire import BODY, delivery, request, signed
from tests.webhooks.hostile import BODIES

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

METHODS = (
    "GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "PRI", "post", "POST ",
    " POST", "P\0ST", "PÖST", "", "X" * 5000, "M-SEARCH", "SOURCE",
)  # fmt: skip
TARGETS = (
    "/", "//", "*", "hooks", "/hooks/", "/hooks//", "/hooks/../hooks", "/./hooks", "/HOOKS",
    "/hooks?", "/hooks?x=%ff&%", "/hooks#part", "/hooks;v=1", "/hooks%", "/hooks%zz", "/%68ooks",
    "/hooks%00", "/%00", "/%ff%fe", "/%ED%A0%80", "/%2e%2e/hooks", "/hooks\\", "/hooks\t",
    "/ho oks",
    "/h\xf6\xf6ks", "/hooks\x7f", "/" + "a" * 70_000, "/" + "%41" * 3000, "/hooks" + "/" * 2000,
    "http://duly.test/hooks", "HTTP://duly.test:99999/hooks", "http://duly.test", "https:///hooks",
    "http://[::1/hooks", "ftp://x/y", "duly.test:443", "?", "#", "/healthz", "/readyz/", "/github",
    "/inline", "/packed", "/large", "/healthz?x", "/..", "/\u00e9", "/hooks%0d%0aX:1",
)  # fmt: skip
VERSIONS = (
    "HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/1.9", "HTTP/11", "HTTP/1", "HTTP/-1.1", "http/1.1",
    "HTTPS/1.1", "HTTP/1.1 ", "HTTP/1.1\0", "", "X" * 300, "RTSP/1.0", "ICE/1.0",
)  # fmt: skip
LINES = (
    b"no colon", b": no name", b"x y: spaced name", b"x : space before", b" folded: line",
    b"\tfolded", b"x: a\rb", b"x: a\nb", b"x: a\0b", b"x\0y: z", b"x: \xff\xfe\x80", b"\xff: x",
    "x: \u4e2d".encode(), b"x: " + b"a" * 40_000, b"x" * 40_000 + b": a", b"x:", b"x: \x7f\x1b[31m",
    b"host: two", b"host:", b"content-length: -1", b"content-length: 1, 2", b"content-length: +5",
    b"content-length: 0x10", b"content-length: 9" + b"9" * 30, b"content-length: ",
    b"content-length: 5\r\ncontent-length: 6", b"transfer-encoding: chunked",
    b"transfer-encoding: chunked, identity", b"transfer-encoding: gzip", b"transfer-encoding:\x0bx",
    b"Transfer-Encoding : chunked", b"transfer-encoding: xchunked", b"content-encoding: gzip",
    b"content-encoding: br, gzip", b"content-encoding:", b"content-encoding: \xff",
    b"expect: 100-continue", b"expect: 999",
    b"connection: close, keep-alive", b"connection: upgrade\r\nupgrade: websocket",
    b"connection: upgrade\r\nupgrade: h2c\r\nhttp2-settings: AAA", b"te: trailers", b"trailer: x",
    b"webhook-id: another", b"webhook-signature: v1,AA==", b"webhook-timestamp: 0",
    b"webhook-signature: " + b"v1,AAAA " * 2000, b"content-type: \xff", b"cookie: " + b"a=b;" * 900,
    b"\r\n".join(b"x-%d: y" % number for number in range(400)),
    b"\r\n".join([b"webhook-signature: v1,AA=="] * 60), b"forwarded: for=\"\\", b"range: bytes=0-",
)  # fmt: skip
CHUNKS = (
    b"zz\r\n", b"-1\r\nx\r\n", b"ffffffffffffffffff\r\n", b"5\r\nab\r\n", b"1;" + b"x" * 20_000,
    b"0\r\n\r\n", b"0\r\nx: y\r\n\r\n", b"1\r\na\r\n0\r\nbad trailer\r\n\r\n", b"1\nx\n0\n\n",
    b"\r\n",
    b"0x1\r\na\r\n0\r\n\r\n", b"5\r\nabcdefghij\r\n0\r\n\r\n",
    b"00000000000000000001\r\na\r\n0\r\n\r\n",
)  # fmt: skip
NOISE = (
    b"\r\n" * 200, b"\0" * 300, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x5a" * 200,
    b"SSH-2.0-OpenSSH_9.6\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
    b"GET /hooks\r\n",
    b"GET /healthz\r\n\r\n", b"EHLO duly.test\r\n", b"*1\r\n$4\r\nPING\r\n",
    b"PROXY TCP4 1 2 3 4\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b"\xff\xff\xff\xff", b"G", b"POST",
    b"POST /hooks HTTP/1.1", b"POST /hooks HTTP/1.1\r\nhost", b"\x80\x00\x00\x00", b"{}\n",
)  # fmt: skip


def changed_line(random: Random, event_id: str) -> bytes:
    """A genuine delivery under another method, target or version."""
    method, target, version = "POST", "/hooks", "HTTP/1.1"
    match random.randrange(3):
        case 0:
            method = random.choice(METHODS)
        case 1:
            target = random.choice(TARGETS)
        case _:
            version = random.choice(VERSIONS)
    rest = delivery(event_id).partition(b"\r\n")[2]
    return f"{method} {target} {version}\r\n".encode("latin-1") + rest


def odd_headers(random: Random, event_id: str) -> bytes:
    """A genuine delivery with lines among its headers that do not belong there."""
    lines = delivery(event_id).split(b"\r\n")
    for _ in range(random.randint(1, 3)):
        lines.insert(random.randint(1, len(lines) - 2), random.choice(LINES))
    return b"\r\n".join(lines)


def odd_chunks(random: Random, event_id: str) -> bytes:
    """A body in pieces that are none."""
    head = request("POST", "/hooks", [*signed(event_id), ("transfer-encoding", "chunked")])
    return head + b"".join(random.choices(CHUNKS, k=random.randint(1, 4)))


def mutated(random: Random, event_id: str) -> bytes:
    """A genuine delivery with bytes flipped, lost, doubled or put in."""
    raw = bytearray(delivery(event_id))
    for _ in range(random.randint(1, 6)):
        at = random.randrange(len(raw))
        match random.randrange(4):
            case 0:
                raw[at] ^= 1 << random.randrange(8)
            case 1:
                del raw[at : at + random.randint(1, 20)]
            case 2:
                raw[at:at] = raw[at : at + random.randint(1, 60)]
            case _:
                raw[at:at] = random.randbytes(random.randint(1, 8))
        if not raw:
            return b"\r\n"
    return bytes(raw)


def cut_short(random: Random, event_id: str) -> bytes:
    """A genuine delivery that ends too early."""
    raw = delivery(event_id)
    return raw[: random.randrange(1, len(raw))]


def run_together(random: Random, event_id: str) -> bytes:
    """Several requests in one go, some with something between them."""
    between = (b"", b"\r\n", b"\0", b"x", BODY)
    parts = [
        random.choice((delivery(event_id), cut_short(random, event_id), request("GET", "/healthz")))
        + random.choice(between)
        for _ in range(random.randint(2, 8))
    ]
    return b"".join(parts)


def odd_body(random: Random, event_id: str) -> bytes:
    """A genuine delivery of unreadable bytes, or an unsigned one."""
    body = random.choice((*BODIES, random.randbytes(random.randint(0, 2000))))
    path = random.choice(("/hooks", "/packed", "/inline", "/github", "/large"))
    if random.random() < 0.5:
        return delivery(event_id, body, path=path)
    encoding = ("content-encoding", random.choice(("gzip", "deflate", "br", "", "identity", "x")))
    return delivery(event_id, body, path=path, more=[encoding])


def noise(random: Random, event_id: str) -> bytes:
    """What was never a request."""
    return random.choice((*NOISE, random.randbytes(random.randint(1, 3000))))


KINDS: tuple[Callable[[Random, str], bytes], ...] = (
    changed_line, odd_headers, odd_chunks, mutated, cut_short, run_together, odd_body, noise,
)  # fmt: skip


def malformed(random: Random, number: int) -> bytes:
    """The next one; its number makes its event id."""
    return random.choice(KINDS)(random, f"odd_{number}")
