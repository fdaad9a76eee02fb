"""Run as a process: serve one site on a free port with a real server, and print the port."""

from __future__ import annotations

import importlib
import logging
import socket
import sys


def main(module: str, site: str, server: str, url: str) -> None:
    """Serve until the process is ended."""
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    application = getattr(
        importlib.import_module(f"tests.receiver.integrations.sites.{module}"), site
    )(url)
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    if server == "uvicorn":
        import uvicorn

        uvicorn.Server(uvicorn.Config(application, log_level="warning")).run([listener])
    else:
        import waitress

        waitress.serve(application, sockets=[listener], threads=8)


if __name__ == "__main__":
    main(*sys.argv[1:])
