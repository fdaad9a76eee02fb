"""Whatever a server may hand over within ASGI or WSGI gets one complete answer, and no exception.

The only 5xx is 503; a client that hangs up before its request was read gets no answer.
"""

from __future__ import annotations

import asyncio
import io
import re
import uuid
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.server.hostile.application import application
from tests.server.hostile.gateways import environ_of
from tests.server.hostile.wire import BODY, signed
from tests.support.sizes import sized
from tests.webhooks.hostile import BODIES

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping

    from duly import Duly

pytestmark = pytest.mark.slow

EXAMPLES = sized(120, whole=400)
TOKEN = re.compile(rb"[a-z0-9!#$%&'*+.^_`|~-]+")
PATHS = ("/hooks", "/hooks/", "/inline", "/packed", "/large", "/github")
Scope = dict[str, Any]
Message = dict[str, Any]

odd_methods = st.sampled_from(["GET", "HEAD", "PUT", "OPTIONS", "X-Y", "post", "!"])
text = st.text(st.characters(codec="utf-8"), max_size=10)
odd_paths = st.sampled_from(("/healthz", "/readyz", "/", "//", "/hooks/x")) | text.map("/".__add__)
bodies = st.sampled_from([BODY, *BODIES]) | st.binary(max_size=100)
names = st.sampled_from(
    [
        *(b"webhook-id", b"webhook-signature", b"webhook-timestamp", b"content-length", b"host"),
        *(b"content-encoding", b"content-type", b"x-hub-signature-256", b"x-github-delivery"),
        *(b"transfer-encoding", b"user-agent", b"x", b"connection", b"expect", b"!#$%&'*+.^_`|~-"),
    ]
)
values = st.sampled_from([b"gzip", b"identity", b"0", b"44", b"-1", b"v1,AA==", b"sha256=00"]) | (
    st.binary(max_size=12).map(lambda value: value.translate(None, b"\r\n\0"))
)
headers = st.lists(st.tuples(names, values), max_size=6)
seldom = st.integers(0, 4).map(lambda number: number == 4)


@st.composite
def methods_and_paths(draw: st.DrawFn) -> tuple[str, str]:
    """Mostly a delivery to a source."""
    method = draw(odd_methods) if draw(seldom) else "POST"
    return method, draw(odd_paths) if draw(seldom) else draw(st.sampled_from(PATHS))


@st.composite
def requests(draw: st.DrawFn) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Headers and a body; genuine now and then, and now and then but for one thing."""
    body, pairs = draw(bodies), draw(headers)
    if draw(st.booleans()):
        own = [(name.encode(), value.encode()) for name, value in signed(uuid.uuid4().hex, body)]
        pairs = draw(st.permutations([*own, *(pairs if draw(st.booleans()) else [])]))
    # A server sees to it that the body is as long as its length says.
    return [pair for pair in pairs if pair[0] != b"content-length" or fits(pair[1], body)], body


def fits(length: bytes, body: bytes) -> bool:
    """Whether a server would hand over this body under this length."""
    return not length.isdigit() or int(length) <= len(body)


@st.composite
def scopes(draw: st.DrawFn, pairs: list[tuple[bytes, bytes]]) -> Scope:
    """A scope of HTTP with as much left out as may be."""
    root = draw(st.sampled_from(["", "", "", "/mounted", "/hooks", "/h\xf6"]))
    method, path = draw(methods_and_paths())
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": draw(st.sampled_from(["2.0", "2.3", "2.4"]))},
        "http_version": draw(st.sampled_from(["1.0", "1.1", "2", "3"])),
        "method": method,
        "path": root + path,
        "query_string": draw(st.sampled_from([b"", b"x=%ff"]) | st.binary(max_size=20)),
        "headers": draw(st.sampled_from([pairs, [list(pair) for pair in pairs]])),
    }
    optional: Scope = {
        "raw_path": draw(st.none() | st.binary(max_size=20)),
        "root_path": root,
        "scheme": draw(st.sampled_from(["http", "https"])),
        "client": draw(st.none() | st.tuples(text, st.integers(0, 65535))),
        "server": draw(st.none() | st.tuples(text, st.none() | st.integers(0, 65535))),
        "state": {},
        "extensions": {},
    }
    kept = draw(st.sets(st.sampled_from(sorted(optional))))
    return scope | {name: optional[name] for name in kept}


@st.composite
def messages(draw: st.DrawFn, body: bytes) -> list[Message]:
    """A body in any number of pieces, empty ones too; perhaps the client hangs up on the way."""
    cuts = sorted(draw(st.lists(st.integers(0, len(body)), max_size=4)))
    edges = [0, *cuts, len(body)]
    pieces = [body[start:end] for start, end in pairwise(edges)]
    found: list[Message] = [
        {"type": "http.request", "body": piece, "more_body": True} for piece in pieces
    ]
    found[-1]["more_body"] = False
    for message in found:
        if not message["body"] and draw(st.booleans()):
            del message["body"]
        if not message["more_body"] and draw(st.booleans()):
            del message["more_body"]
    if draw(st.integers(0, 4)) == 0:
        del found[draw(st.integers(0, len(found) - 1)) :]
    return [*found, {"type": "http.disconnect"}]


class Connection:
    """One connection as a server hands it over: it knows what was read and what was sent."""

    def __init__(self, given: list[Message], *, listens: int) -> None:
        self._given = iter(given)
        self._listens = listens
        self.hung_up = False
        self.sent: list[MutableMapping[str, Any]] = []

    async def receive(self) -> Message:
        """The next message; after the last one the client is gone, as often as one asks."""
        message = next(self._given, {"type": "http.disconnect"})
        self.hung_up = self.hung_up or message["type"] == "http.disconnect"
        return message

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Take a message; where the client is gone a server raises (ASGI 2.4)."""
        if len(self.sent) == self._listens:
            self.hung_up = True
            raise OSError("the client is gone")
        self.sent.append(message)


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    """One event loop for all examples."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def app(loop: asyncio.Runner) -> Iterator[Duly]:
    """The application in this process."""
    app = application("memory:")
    yield app
    loop.run(app.aclose())


@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data())
def test_any_asgi_request_gets_one_complete_answer(
    app: Duly, loop: asyncio.Runner, data: st.DataObject
) -> None:
    pairs, body = data.draw(requests())
    scope = data.draw(scopes(pairs))
    listens = data.draw(st.integers(0, 1)) if data.draw(seldom) else 2
    connection = Connection(data.draw(messages(body)), listens=listens)
    loop.run(app(scope, connection.receive, connection.send))
    if connection.hung_up and len(connection.sent) < 2:
        event("hung up")
        return
    start, *rest = connection.sent
    assert start["type"] == "http.response.start"
    check(start["status"])
    assert all(TOKEN.fullmatch(name) for name, _ in start["headers"])
    assert not any(set(value) & set(b"\r\n\0") for _, value in start["headers"])
    assert [message["type"] for message in rest] == ["http.response.body"]
    [last] = rest
    assert not last.get("more_body", False)
    length = int(dict(start["headers"])[b"content-length"])
    assert len(last["body"]) == (0 if scope["method"] == "HEAD" else length)


def check(status: int) -> None:
    """The status of a good answer."""
    event(f"status {status}")
    assert 200 <= status < 500 or status == 503


class Trickling(io.RawIOBase):
    """A body that comes in pieces of any size."""

    def __init__(self, body: bytes, size: int) -> None:
        self._body = io.BytesIO(body)
        self._size = size

    def read(self, size: int = -1) -> bytes:
        """As much as there is, or as fits."""
        return self._body.read(self._size if size < 0 else min(size, self._size))


@st.composite
def environs(draw: st.DrawFn) -> dict[str, Any]:
    """An environment of WSGI with as much left out as may be; text is bytes read as latin-1."""
    pairs, body = draw(requests())
    made = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in pairs]
    made = [pair for pair in made if pair[0] != "content-length"]
    length = draw(st.sampled_from([str(len(body))] * 3 + [None, "", "0", "-1", "x", "9" * 20]))
    if length is not None:
        made.append(("content-length", length))
    environ = environ_of(made, Trickling(body, draw(st.integers(1, 100))))
    environ["REQUEST_METHOD"], path = draw(methods_and_paths())
    environ["PATH_INFO"] = path.encode().decode("latin-1")
    environ["SCRIPT_NAME"] = draw(st.sampled_from(["", "/mounted", "/\xff"]))
    environ["QUERY_STRING"] = draw(st.text(st.characters(max_codepoint=255), max_size=20))
    environ["REMOTE_ADDR"] = draw(st.sampled_from(["", "127.0.0.1", "::1", "unix:"]))
    environ["wsgi.url_scheme"] = draw(st.sampled_from(["http", "https"]))
    if draw(st.booleans()):
        environ["wsgi.input_terminated"] = draw(st.booleans())
    # PEP 3333: what would be empty may be missing.
    for name in ("SCRIPT_NAME", "PATH_INFO", "QUERY_STRING"):
        if draw(seldom):
            del environ[name]
    if draw(st.booleans()):
        del environ["REMOTE_ADDR"]
    return environ


@settings(max_examples=EXAMPLES, deadline=None)
@given(environ=environs())
def test_any_wsgi_request_gets_one_complete_answer(app: Duly, environ: dict[str, Any]) -> None:
    started: list[tuple[str, list[tuple[str, str]]]] = []
    parts = app.wsgi(environ, lambda status, headers: started.append((status, headers)))
    body = b"".join(parts)
    with suppress(AttributeError):
        parts.close()  # type: ignore[attr-defined]
    [(status, pairs)] = started
    assert re.fullmatch(r"\d{3} \S.*", status)
    check(int(status[:3]))
    assert all(type(name) is str and type(value) is str for name, value in pairs)
    assert not any(set(value) & set("\r\n\0") for _, value in pairs)
    assert "connection" not in dict(pairs)
    length = int(dict(pairs)["content-length"])
    assert len(body) == (0 if environ["REQUEST_METHOD"] == "HEAD" else length)
