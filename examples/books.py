"""Replaces the accounting service of a shop: it prints each entry that it receives.

python books.py 9000
"""

import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import duly

SOURCE = duly.Source("standard-webhooks", os.environ["BOOKS_SIGNING_SECRET"])
TAKEN: set[str] = set()  # a service has a table for it


class Books(BaseHTTPRequestHandler):
    """Accept an entry once for each id, as a receiver should."""

    def do_POST(self) -> None:
        """One message of the shop's relay."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            message = duly.verify(SOURCE, self.headers.items(), body)
        except duly.errors.Rejected as problem:
            self.send_error(403, problem.reason)
            return
        print("known" if message.id in TAKEN else "new", message.id, body.decode(), flush=True)
        TAKEN.add(message.id)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Log no requests: the entries are printed above."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Books).serve_forever()
