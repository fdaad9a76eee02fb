"""One connection of ``duly serve`` in this process: its pieces arrive exactly as a test cuts them.

Two packets that are sent one after the other may be read as one. Here the pieces are handed to the
protocol of the server itself, on a real socket pair, and everything that it answers is read.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import uvicorn
from uvicorn.server import ServerState

from duly.server.protocol import BoundedProtocol
from tests.server.hostile.crowds import all_of
from tests.server.hostile.wire import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from tests.server.hostile.wire import Answer


class Request(NamedTuple):
    """What the application was given."""

    method: str
    path: str
    body: bytes


@dataclass
class Connection:
    """A connection whose application tells back what it was given, and remembers it."""

    app: Any = None  # what is served in place of `application`
    patient: bool = False  # whether the application waits for `go`
    go: asyncio.Event = field(default_factory=asyncio.Event)
    seen: list[Request] = field(default_factory=list)
    headers: list[list[tuple[bytes, bytes]]] = field(default_factory=list)
    state: ServerState = field(default_factory=ServerState)
    options: dict[str, Any] = field(default_factory=dict)  # of uvicorn

    async def __aenter__(self) -> Connection:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        config = uvicorn.Config(
            self.app or self.application,
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            interface="asgi3",
            access_log=False,
            **self.options,
        )
        _, self.protocol = await loop.connect_accepted_socket(
            lambda: BoundedProtocol(config, self.state, {}, loop), theirs
        )
        self.reader, self.writer = await asyncio.open_connection(sock=ours)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.writer.transport.abort()
        await self.until(lambda: not self.state.connections and not self.state.tasks)

    async def application(self, scope: Any, receive: Any, send: Any) -> None:
        """Any: as ASGI has it. ``/early`` is answered before its body is read."""
        body, more = b"", scope["path"] != "/early"
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            more = message["more_body"]
        self.headers.append(list(scope["headers"]))
        self.seen.append(Request(scope["method"], scope["path"], body))
        if self.patient:
            await self.go.wait()
        length = b"%d" % len(body)
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]}
        )
        await send({"type": "http.response.body", "body": body})

    async def hand(self, pieces: Iterable[bytes]) -> None:
        """Hand over these pieces, each as soon as the connection reads."""
        for piece in pieces:
            await self.until(lambda: not self.protocol.flow.read_paused or self.over)
            if not self.state.connections:
                return
            self.protocol.data_received(piece)

    @property
    def over(self) -> bool:
        """Whether the connection carries no further request."""
        return not self.state.connections or self.protocol.transport.is_closing()

    async def quiet(self) -> None:
        """Wait until everything that was asked is answered."""
        await self.until(
            lambda: (
                not self.state.tasks
                and not self.protocol.is_delivering()
                and (self.over or not self.protocol.pipeline)
            )
        )

    async def answers(self) -> list[Answer]:
        """Everything that was answered, once nothing is under way."""
        await self.quiet()
        self.protocol.transport.abort()
        async with asyncio.timeout(PATIENCE):
            return list(all_of(await self.reader.read()))

    async def until(self, found: Callable[[], bool]) -> None:
        """Wait for something that must come."""
        async with asyncio.timeout(PATIENCE):
            while not found():  # noqa: ASYNC110  # the server has no event for it
                await asyncio.sleep(0)


async def exchange_pieces(pieces: Iterable[bytes]) -> tuple[list[Request], list[Answer]]:
    """What the application is given and what the sender is told, for one connection."""
    async with Connection() as connection:
        await connection.hand(pieces)
        answers = await connection.answers()
        return connection.seen, answers
