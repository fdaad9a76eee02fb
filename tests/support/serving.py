"""A real server process of ``duly serve``, and the deliveries it is sent."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import duly
from tests.support.processes.forked import Forked, run_forked
from tests.support.processes.leading import PATIENCE, until

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator
    from pathlib import Path

SECRET = "whsec_canary_of_the_secret"
URL = re.compile(r"http://[\w.\[\]:]+:\d+")

# Handlers that say who they are, and wait until they are let go where a body asks for it.
APP = """
import os
import time
from pathlib import Path

import duly

app = duly.Duly(os.environ["SHOP_URL"])
app.source("stripe", secret=os.environ["SHOP_SECRET"], inline=True)
app.source("later", provider="stripe", secret=os.environ["SHOP_SECRET"])
HERE = Path(__file__).parent


@app.on("stripe", "paid")
def mark_paid(event, tx):
    tx.execute("INSERT INTO paid (event, process) VALUES (:id, :pid)", id=event.id, pid=os.getpid())


@app.on("stripe", "slow")
def slow(event, tx):
    tx.execute("INSERT INTO paid (event, process) VALUES (:id, :pid)", id=event.id, pid=os.getpid())
    (HERE / "begun.part").write_text(str(os.getpid()))
    (HERE / "begun.part").rename(HERE / "begun")
    while not (HERE / "go").exists():
        time.sleep(0.01)


@app.on("stripe", "broken")
def broken(event):
    raise RuntimeError("it says " + os.environ["SHOP_SECRET"] + " and postgresql://u:pass5@h/d")


@app.on("later", "*")
def later(event):
    pass
"""


class Answer(NamedTuple):
    """What a server replied."""

    status: int
    body: Any
    headers: dict[str, str]


class Served:
    """One server, from its first line to its exit code."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self._log = log
        self.lines: list[str] = []
        self.url = ""

    @property
    def pid(self) -> int:
        return self.process.pid

    def log(self) -> str:
        return self._log.read_text()

    def opened(self) -> None:
        """Read what it says when it starts, as far as its address."""
        assert self.process.stdout is not None
        self.lines.append(self.process.stdout.readline())
        found = URL.search(self.lines[0])
        assert found, self.log()
        self.url = found[0]

    def log_tells(self, text: str) -> None:
        until(lambda: True if text in self.log() else None)

    def tell(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def tell_all(self, number: signal.Signals) -> None:
        """What a service manager does: a signal to every process there is."""
        os.killpg(self.pid, number)

    def ended(self) -> int:
        return self.process.wait(PATIENCE)

    def get(self, path: str) -> Answer:
        return asked(self.url, "GET", path, b"", {})

    def send(
        self, event_id: str, event_type: str, source: str = "stripe", **more: object
    ) -> Answer:
        body = json.dumps({"id": event_id, "type": event_type, **more}).encode()
        signed = duly.sign("stripe", body, SECRET)
        return asked(self.url, "POST", f"/{source}", body, dict(signed.headers))

    def closed(self) -> bool:
        """Whether nobody listens any more."""
        try:
            asked(self.url, "GET", "/healthz", b"", {})
        except OSError:
            return True
        return False


def asked(url: str, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
    """One request on a connection of its own."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port or 0, timeout=PATIENCE)
    try:
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        return Answer(reply.status, json.loads(reply.read() or b"null"), dict(reply.getheaders()))
    finally:
        connection.close()


@contextmanager
def served(
    here: Path, *options: str, first: str = "", wait: bool = True, **environment: str
) -> Iterator[Served]:
    """Serve until the block ends. ``first`` is code that the process runs before."""
    program = f"import sys\n{first}\nfrom duly.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    log = here / "log"
    with (
        log.open("w") as stderr,
        Forked(
            [sys.executable, "-W", "error", "-c", program, "serve", *options, "--port", "0"],
            cwd=here,
            env={**clean(), "SHOP_SECRET": SECRET, **environment},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            process_group=0,
        ) as process,
    ):
        found = Served(process, log)
        try:
            if wait:
                found.opened()
            yield found
        finally:
            process.kill()


def clean() -> dict[str, str]:
    """The environment without settings of whoever runs the tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith("DULY_")}


def refused(here: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A server that is expected to end by itself."""
    return run_forked(
        [sys.executable, "-W", "error", "-m", "duly", "serve", *options],
        cwd=here,
        env={**clean(), "SHOP_SECRET": SECRET, **environment},
        timeout=PATIENCE,
    )


def rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    """What stands in the database, seen from outside."""
    if url.startswith("sqlite:"):
        import sqlite3

        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        try:
            found = connection.execute(statement).fetchall() if statement else []
            connection.commit()
        finally:
            connection.close()
        return found
    import psycopg

    with psycopg.connect(url) as connected:
        cursor = connected.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []
