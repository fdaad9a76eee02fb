"""A real server in a process of its own: `python -m tests.receiver.faults.serving URL MODE SOCKET`.

The socket it listens on is its parent's. Whoever connects while no server lives is served by the
next one, and no port is ever lost to somebody else.
"""

import http.client
import os
import signal
import socket
import sys
import threading
from types import TracebackType
from typing import Self, cast

import uvicorn

from duly.webhooks.sign import Signed
from tests.receiver.faults.books import Books
from tests.receiver.faults.doors import Answer, answer_of
from tests.receiver.faults.shops import Mode, Senders, shop_app
from tests.support.processes import Led, until

TIMEOUT = 20.0


class Served(Senders):
    """A shop behind uvicorn, its process, and a connection for each thread that sends."""

    def __init__(self, url: str, mode: Mode) -> None:
        super().__init__()
        self.books = Books(url)
        self.mode = mode
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._listener.set_inheritable(True)
        self._local = threading.local()
        self._connections: list[http.client.HTTPConnection] = []
        self.start()

    def start(self) -> None:
        """Start a server; it serves whoever waits at the socket."""
        number = self._listener.fileno()
        arguments = (self.books.url, self.mode, str(number))
        self._process = Led(__name__, *arguments, pass_fds=[number])

    def kill(self) -> None:
        """End it with no chance to tidy up; returns when it is gone."""
        self._process.kill()

    def terminate(self) -> None:
        """Ask it to end."""
        os.kill(self._process.pid, signal.SIGTERM)

    def ended(self) -> int:
        """How it ended."""
        return self._process.ended()

    def connect(self) -> http.client.HTTPConnection:
        """A connection of a sender's."""
        port = self._listener.getsockname()[1]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        self._connections.append(connection)
        return connection

    def post(self, delivery: Signed) -> Answer:
        """Send on this thread's connection; an `OSError` where nobody answers."""
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self.connect()
        try:
            begin(connection, delivery)
            answer = answered(connection)
        except (OSError, http.client.HTTPException) as problem:
            connection.close()
            raise OSError("the server did not answer") from problem
        self.heard(delivery, answer)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for connection in self._connections:
            connection.close()
        self._process.kill()
        self._listener.close()
        if problem is None:
            self.books.check(self.sent, self.told, inline=self.mode != "deferred")
            self.books.alone()


def begin(connection: http.client.HTTPConnection, delivery: Signed) -> None:
    connection.request("POST", "/shop", delivery.body, dict(delivery.headers))


def answered(connection: http.client.HTTPConnection) -> Answer:
    response = connection.getresponse()
    pairs = [(name.lower(), value) for name, value in response.getheaders()]
    return answer_of(response.status, pairs, response.read())


def lives(served: Served) -> bool | None:
    """True once the server answers; None until then."""
    connection = served.connect()
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200 or None
    except OSError:
        return None
    finally:
        connection.close()


def up(served: Served) -> None:
    """Wait until the server answers."""
    assert until(lambda: lives(served))


def main(url: str, mode: str, number: str) -> None:
    """Serve until a signal comes."""
    app = shop_app(url, cast("Mode", mode))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))
    server.run(sockets=[socket.socket(fileno=int(number))])


if __name__ == "__main__":
    main(*sys.argv[1:])
