"""Where messages go: `python -m verification.crash_matrix.receiver JOURNAL` prints its port.

``/ok`` takes everything, ``/busy`` and ``/refused`` only what they have seen before, ``/gone``
nothing ever.
"""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from verification.crash_matrix.journal import Journal

SEEN: set[str] = set()


class Answering(BaseHTTPRequestHandler):
    """Writes down what it gets before it answers."""

    journal: Journal
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Take one message."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        name = self.headers.get("Idempotency-Key", "")
        status = self._status(name)
        told = {"path": self.path, "id": name, "body": body.decode(), "status": status}
        self.journal.write("message", **told)
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _status(self, name: str) -> int:
        if self.path.startswith("/gone"):
            return 410
        known = name in SEEN
        SEEN.add(name)
        first = {"/busy": 503, "/refused": 410}.get(f"/{self.path.split('/')[1]}", 200)
        return 200 if known else first

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """Relays are killed while they talk to it, and that is no news."""

    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing."""


def main() -> None:
    """Serve until the process is killed."""
    Answering.journal = Journal(sys.argv[1])
    server = Server(("127.0.0.1", 0), Answering)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
