"""Run the release before and this one, as wheels, on one database under load; then audit it.

The release before migrates an empty database and serves it. While senders deliver, this release
migrates, serves beside it, and the release before is stopped, started again, killed and started
again on the new tables.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg
from tests.support.servers import database, postgres

import duly

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
MIGRATIONS = "src/duly/stores/postgres/migrations"
SECRET = "whsec_of_the_upgrade"
EFFECTS = "CREATE TABLE effects (event text, release text)"
SENDERS = 4
# Seconds: to start or stop a server, and to work off what is left at the end.
PATIENCE = 120
MISSING = 3
EXAMPLES = """\
examples:
  python -m verification.upgrade                      both stores, about a minute
  python -m verification.upgrade --store sqlite --seconds 60
  python -m verification.upgrade --from v0.1.0        from that revision

exit status: 0 every promise kept, 1 a promise broken, 3 there is no history
to take the release before from"""


class Broken(Exception):
    """A promise that was not kept."""


# The two releases


def revision_before() -> str | None:
    """The last revision without the newest migration; None where git does not know it."""
    newest = max((ROOT / MIGRATIONS).glob("*.sql")).name
    found = git("log", "--diff-filter=A", "--format=%H", "-1", "--", f"{MIGRATIONS}/{newest}")
    return f"{found.strip()}^" if found and found.strip() else None


def git(*words: str) -> str | None:
    """What git prints about this checkout; None where it fails."""
    with suppress(OSError):
        ended = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        return ended.stdout if ended.returncode == 0 else None
    return None


def build(sources: Path, folder: Path) -> Path:
    """Build the wheel of a source tree and unpack it; return where it is imported from."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    wheels = folder.with_suffix(".wheels")
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", wheels, sources], check=True)
    (wheel,) = wheels.glob("duly-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", folder, wheel], check=True)
    return folder


def releases(revision: str, folder: Path) -> tuple[Path, Path]:
    """The release of a revision and this one, each in a folder of its own."""
    sources = folder / "sources"
    sources.mkdir()
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, stdout=-1, check=True)
    subprocess.run(["tar", "-x", "-C", sources], input=archive.stdout, check=True)
    return build(sources, folder / "before"), build(ROOT, folder / "this")


class Release:
    """One release and the database that it works on."""

    def __init__(self, place: Path, folder: Path, url: str) -> None:
        self.name, self._folder = place.name, folder
        plain = {name: text for name, text in os.environ.items() if not name.startswith("DULY_")}
        self._environment = {
            **plain,
            "PYTHONPATH": os.pathsep.join((str(place), str(folder))),
            "SHOP_URL": url,
            "SHOP_SECRET": SECRET,
        }
        where = self._run("-c", "import duly; print(duly.__file__)")
        if not where.startswith(str(place)):
            raise Broken(f"{self.name} would run {where.strip()}")

    def command(self, *words: str) -> str:
        """Run one command of this release."""
        return self._run("-m", "duly", *words)

    def _run(self, *words: str) -> str:
        ended = subprocess.run(
            [sys.executable, *words],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        if ended.returncode:
            raise Broken(f"{self.name}: {' '.join(words)} ended with {ended.stderr}")
        return ended.stdout

    def serve(self, number: int) -> Server:
        """Start a server of this release."""
        log = self._folder / f"{self.name}-{number}.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "duly", "serve", "shop:app", "--port", "0", "--lease", "5"],
                cwd=self._folder,
                env=self._environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        server = Server(self.name, process, log)
        server.wait_until_it_listens()
        return server


class Server:
    """A running ``duly serve``."""

    def __init__(self, release: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.release, self.log = release, log
        self.address = ""
        self._process = process

    def wait_until_it_listens(self) -> None:
        """Wait for its address."""
        until = time.monotonic() + PATIENCE
        while not (found := re.search(r"http://(127\.0\.0\.1:\d+)", self.log.read_text())):
            if self._process.poll() is not None or time.monotonic() > until:
                self.stop(signal.SIGKILL)
                raise Broken(f"{self.release} does not start: {self.log.read_text()}")
            time.sleep(0.05)
        self.address = found[1]

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it."""
        if self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE)


# The load


class Senders:
    """Threads that deliver new events to the servers there are, each until it is acknowledged.

    Every event is delivered once more after it was acknowledged, to any of the servers.
    """

    def __init__(self) -> None:
        self.servers: list[Server] = []
        self.acknowledged: list[str] = []
        self.answers: Counter[str] = Counter()
        self._ended = threading.Event()
        self._problems: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._send, args=(number,)) for number in range(SENDERS)
        ]

    def start(self) -> None:
        """Begin to send."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Deliver what was begun, and end."""
        self._ended.set()
        for thread in self._threads:
            thread.join()
        if self._problems:
            raise self._problems[0]

    def _send(self, number: int) -> None:
        try:
            count = 0
            while not self._ended.is_set():
                count += 1
                name = f"evt_{number}_{count}"
                self._deliver(name, count)
                self.acknowledged.append(name)
                said = self._deliver(name, count + 1)
                if said != "duplicate":
                    raise Broken(f"a copy of {name} was answered {said}")
        except BaseException as problem:  # told by stop()
            self._problems.append(problem)

    def _deliver(self, name: str, turn: int) -> str:
        """Deliver an event until it is acknowledged; return what it was told."""
        body = json.dumps({"id": name, "type": "paid", "object": "event"}).encode()
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            server = self.servers[turn % len(self.servers)]
            turn += 1
            with suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection(server.address, timeout=PATIENCE)
                with closing(connection):
                    headers = dict(duly.sign("stripe", body, SECRET).headers)
                    connection.request("POST", "/stripe", body, headers)
                    reply = connection.getresponse()
                    text = reply.read()
                if reply.status == http.HTTPStatus.OK:
                    said: str = json.loads(text)["status"]
                    self.answers[f"{server.release} {said}"] += 1
                    return said
                self.answers[f"{server.release} {reply.status}"] += 1
            time.sleep(0.05)
        raise Broken(f"{name} was never acknowledged")


# The run


def run(store: str, places: tuple[Path, Path], folder: Path, seconds: float) -> dict[str, Any]:
    """One run on one store; return what was counted."""
    (folder / "shop.py").write_text((HERE / "shop.py").read_text())
    with ExitStack() as stack:
        url = f"sqlite:///{folder}/shop.db"
        if store == "postgres":
            url = stack.enter_context(database(stack.enter_context(postgres())))
        before, this = (Release(place, folder, url) for place in places)
        before.command("migrate", url)
        rows(url, EFFECTS)
        senders, quarter = Senders(), seconds / 4
        running = stack.enter_context(stopping())
        running.append(before.serve(1))
        senders.servers = [running[0]]
        senders.start()
        try:
            time.sleep(quarter)
            this.command("migrate", url)
            running.append(this.serve(2))
            senders.servers = [*running]
            time.sleep(quarter)
            for number, how in ((3, signal.SIGTERM), (4, signal.SIGKILL)):
                running[0].stop(how)
                running[0] = before.serve(number)
                senders.servers = [*running]
                time.sleep(quarter)
        finally:
            senders.stop()
        work_off(url, len(senders.acknowledged))
        return {"store": store, **audit(url, senders)}


@contextmanager
def stopping() -> Iterator[list[Server]]:
    """The running servers, stopped at the end."""
    running: list[Server] = []
    try:
        yield running
    finally:
        for server in running:
            server.stop()


def rows(url: str, text: str) -> list[tuple[Any, ...]]:
    """Run one statement beside the servers and return its rows."""
    if urlsplit(url).scheme == "sqlite":
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as file:
            file.execute("PRAGMA busy_timeout = 10000")
            return file.execute(text).fetchall()
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(text.encode())
        return cursor.fetchall() if cursor.description else []


def work_off(url: str, events: int) -> None:
    """Wait until no job is left."""
    until = time.monotonic() + PATIENCE
    while rows(url, "SELECT count(*) FROM duly_jobs WHERE state <> 'dead'") != [(0,)]:
        if time.monotonic() > until:
            raise Broken(f"jobs of {events} events are left")
        time.sleep(0.1)


def audit(url: str, senders: Senders) -> dict[str, Any]:
    """Compare the tables with what was acknowledged."""
    sent = Counter(senders.acknowledged)
    for what, query in {
        "events": "SELECT event_id FROM duly_events",
        "claims": "SELECT key_text FROM duly_claims",
        "effects": "SELECT event FROM effects",
        "first deliveries": (
            "SELECT event_id FROM duly_events WHERE outcome = 'accepted' UNION ALL"
            " SELECT event_id FROM duly_deliveries AS d JOIN duly_events AS e ON e.id = d.event"
            " WHERE d.outcome = 'accepted'"
        ),
    }.items():
        found = Counter(name for (name,) in rows(url, query))
        if found != sent:
            missing, more = sorted(sent - found), sorted(found - sent)
            raise Broken(f"{what}: missing {few(missing)}, too many {few(more)}")
    ran = dict(rows(url, "SELECT release, count(*) FROM effects GROUP BY 1"))
    [(old,)] = rows(
        url,
        "SELECT count(*) FROM duly_events WHERE outcome IS NULL AND received_at >"
        " (SELECT min(received_at) FROM duly_events WHERE outcome IS NOT NULL)",
    )
    if len(ran) < 2 or not old:
        raise Broken(f"the releases did not work side by side: handlers {ran}, received {old}")
    return {
        "events": len(sent),
        "answers": dict(sorted(senders.answers.items())),
        "handlers": ran,
        "received by the release before on the new tables": old,
    }


def few(names: Sequence[str]) -> str:
    """How many names there are, and the first of them."""
    return f"{len(names)} ({', '.join([*names[:3], '…'])})" if names else "none"


def main(words: Sequence[str]) -> int:
    """Run it and return the exit status."""
    parser = argparse.ArgumentParser(
        "python -m verification.upgrade",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--from", dest="revision", metavar="REVISION", help="the release before")
    parser.add_argument("--store", choices=("postgres", "sqlite"), help="this store only")
    parser.add_argument("--seconds", type=float, default=16.0, help="how long to send (16)")
    arguments = parser.parse_args(words)
    revision = arguments.revision or revision_before()
    if revision is None:
        print("upgrade: no history to take the release before from", file=sys.stderr)
        return MISSING
    with tempfile.TemporaryDirectory(prefix="duly-upgrade-") as name:
        places = releases(revision, Path(name))
        for store in [arguments.store] if arguments.store else ["postgres", "sqlite"]:
            folder = Path(name, store)
            folder.mkdir()
            try:
                print(json.dumps(run(store, places, folder, arguments.seconds)), flush=True)
            except Broken as problem:
                print(f"BROKEN on {store}: {problem}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
