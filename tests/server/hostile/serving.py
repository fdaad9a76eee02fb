"""The server's end of a process: a production server on a socket that the test has opened.

``python -m tests.server.hostile.serving duly 3 tests.server.hostile.application:application``
serves what the function returns on file descriptor 3, as ``duly serve`` would; ``uvicorn`` and
``waitress`` do so with nothing of duly's but the application. A test that opens the socket knows
the port, and needs not wait until the server listens: its first connection waits instead.

``DULY_TEST_HEADER_SECONDS`` gives headers less time than they have by default.
"""

from __future__ import annotations

import importlib
import logging
import os
import socket
import sys
from typing import Any

import uvicorn
import waitress

from duly.server import protocol
from duly.server.serve import serve
from duly.server.settings import ServerSettings

HEADER_DEADLINE = "DULY_TEST_HEADER_SECONDS"


def serve_with_duly(listener: socket.socket, application: Any) -> None:
    """Any: a Duly."""
    logging.basicConfig(level=logging.INFO)
    logging.getLogger("duly.access").disabled = True
    seconds = os.environ.get(HEADER_DEADLINE, protocol.HEADER_SECONDS)
    protocol.HEADER_SECONDS = float(seconds)  # type: ignore[misc]  # final outside of tests
    serve(application, listener, ServerSettings("hostile"), ready=lambda: None)


def serve_with_uvicorn(listener: socket.socket, application: Any) -> None:
    """Any: an ASGI application."""
    config = uvicorn.Config(application, access_log=False, ws="none", timeout_keep_alive=30)
    uvicorn.Server(config).run(sockets=[listener])


def serve_with_waitress(listener: socket.socket, application: Any) -> None:
    """Any: an object with a WSGI application."""
    logging.basicConfig(level=logging.INFO)
    waitress.serve(application.wsgi, sockets=[listener], threads=8)


SERVERS = {"duly": serve_with_duly, "uvicorn": serve_with_uvicorn, "waitress": serve_with_waitress}


def main(server: str, descriptor: str, factory: str) -> None:
    """Serve until the process is ended."""
    module, _, name = factory.partition(":")
    application = getattr(importlib.import_module(module), name)()
    SERVERS[server](socket.socket(fileno=int(descriptor)), application)


if __name__ == "__main__":
    main(*sys.argv[1:])
