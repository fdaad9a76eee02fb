"""Where messages go: `python -m matrix.receiver JOURNAL` prints its port and answers by the path.

``/ok`` takes everything, ``/busy`` only what it has seen before, ``/gone`` nothing ever.
"""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from matrix.journal import Journal

SEEN: set[str] = set()


class Answering(BaseHTTPRequestHandler):
    """Writes down what it gets before it answers."""

    journal: Journal
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Take one message."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        name = self.headers.get("Idempotency-Key", "")
        self.journal.write("message", path=self.path, id=name, body=body.decode())
        self.send_response(self._status(name))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _status(self, name: str) -> int:
        if self.path.startswith("/gone"):
            return 410
        known = name in SEEN
        SEEN.add(name)
        return 503 if self.path.startswith("/busy") and not known else 200

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def main() -> None:
    """Serve until the process is killed."""
    Answering.journal = Journal(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
