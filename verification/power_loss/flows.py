"""The program that is recorded: `python -m verification.power_loss.flows FOLDER ROUNDS`.

Two processes write to one file: a real `duly serve`, and this one, which works, relays and prunes.
Whatever somebody outside was told is in the record with the writes, in order: answers as what the
server hands to its sockets, the rest as lines in a file that stands for the world.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, redirect_stdout
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import duly
from duly.cli import main as cli
from verification.power_loss.shop import SECRET, TABLES, Clock, World, bring_to_rest, shop

if TYPE_CHECKING:
    from collections.abc import Iterator

MOMENT = timedelta(seconds=1)
LONG_AGO = timedelta(days=-40)
URL = re.compile(r"http://[\w.]+:\d+")
PATIENCE = 120.0
# Deliveries that arrive at the same moment, to share a commit.
CROWD = 6


class Flows:
    """One recording."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.world = World(folder / "world")
        self.clock = Clock()
        self.numbers = count(1)
        self.app = self.opened(scheduled=False)

    def opened(self, *, scheduled: bool) -> duly.Duly:
        """The application on the recorded file."""
        return shop(self.url, self.world.tell, self.clock, scheduled=scheduled)

    @property
    def url(self) -> str:
        """The recorded database."""
        return f"sqlite:///{self.folder}/disk/shop.db"

    def run(self, rounds: int) -> None:
        """Everything, from a folder without a file to a file that was closed."""
        self.creation()
        self.long_ago()
        for _ in range(rounds):
            self.today()
        self.flow("over")
        self.world.close()

    def creation(self) -> None:
        """A new file: duly's tables, then the shop's."""
        self.flow("creation")
        self.app.store.open()
        with closing(sqlite3.connect(self.folder / "disk" / "shop.db")) as connection, connection:
            for statement in TABLES:
                connection.execute(statement)
        self.world.tell("created")

    def long_ago(self) -> None:
        """What is old enough to be pruned in the first round."""
        self.clock.ahead = LONG_AGO
        self.flow("long ago")
        for kind in ("paid", "paid", "ring"):
            self.hand_in(self.name(f"old-{kind}"), kind)
        self.settle()
        self.app.close()
        self.clock.ahead = timedelta(0)

    def today(self) -> None:
        """Every flow, with a server beside this process; at the end the file is closed."""
        self.app = self.opened(scheduled=True)
        self.prune()
        with served(self.folder) as address:
            self.receive(address)
            self.work(address)
        self.enqueue()
        self.cron()
        self.flow("shutdown")
        self.app.close()

    def prune(self) -> None:
        """What is old goes, chunk by chunk, by the command that people run."""
        self.flow("prune")
        with redirect_stdout(sys.stderr):
            cli.main(["prune", self.url, "--limit", "2"])

    def receive(self, address: str) -> None:
        """Deliveries by HTTP: new, again, inline, and many at once."""
        self.flow("receive new")
        first = self.name("paid")
        self.post(address, first, "paid")
        self.flow("receive duplicate")
        self.post(address, first, "paid")
        self.flow("receive inline")
        rung = self.name("ring")
        self.post(address, rung, "ring")
        self.post(address, rung, "ring")
        self.flow("receive batch")
        with ThreadPoolExecutor(CROWD) as crowd:
            names = [self.name("paid") for _ in range(CROWD - 1)]
            told = [crowd.submit(self.post, address, one, "paid") for one in [*names, names[0]]]
            for one in told:
                one.result(PATIENCE)

    def work(self, address: str) -> None:
        """Jobs that go well, that fail once, that die, and that are replayed; then messages."""
        self.flow("work")
        self.settle()
        self.flow("checkpoint")
        self.checkpoint("PASSIVE")  # the log stays, and is written anew from its beginning
        self.flow("retry")
        self.post(address, self.name("moody"), "moody")
        self.settle()
        self.flow("dead")
        self.post(address, self.name("poison"), "poison")
        broken = self.name("broken")
        self.post(address, broken, "broken")
        self.settle()
        self.flow("checkpoint")
        self.checkpoint("TRUNCATE")
        self.flow("replay")
        with self.app.transaction() as tx:
            tx.execute("INSERT INTO repairs (name) VALUES (:name)", name=broken)
        self.app.jobs.replay(source="orders", type="broken")
        self.settle()

    def checkpoint(self, mode: str) -> None:
        """Whoever has the file open may move its log into it: a backup, a dashboard, a person."""
        with closing(sqlite3.connect(self.folder / "disk" / "shop.db")) as connection:
            connection.execute(f"PRAGMA wal_checkpoint({mode})")

    def enqueue(self) -> None:
        """Jobs of the shop's own, by a key and without one."""
        self.flow("enqueue")
        for kind in ("pack", "remind"):
            name = self.name(f"keyed-{kind}")
            self.world.tell("asks", kind, name)
            for _ in range(2):
                made = self.app.enqueue(kind, {"order": name}, key=name)
                self.world.tell("enqueued", kind, name, made.id)
            name = self.name(f"once-{kind}")
            self.world.tell("asks", kind, name)
            made = self.app.enqueue(kind, {"order": name})
            self.world.tell("enqueued", kind, name, made.id)
        self.settle()

    def cron(self) -> None:
        """Slots of a schedule that come and are missed."""
        self.flow("cron")
        self.settle()
        self.clock.ahead += timedelta(hours=2)
        self.flow("cron, late")
        self.settle()

    def settle(self) -> None:
        """Work and relay until nothing is left that can be done now or in a moment."""
        bring_to_rest(self.app, self.clock, MOMENT)

    def flow(self, name: str) -> None:
        """What begins here."""
        self.world.tell("flow", self.clock().isoformat(), name)

    def name(self, kind: str) -> str:
        """A new id."""
        return f"{kind}-{next(self.numbers)}"

    def hand_in(self, name: str, kind: str) -> None:
        """A delivery without a server: the call that an adapter makes."""
        source = "till" if kind == "ring" else "orders"
        signed = delivery(name, kind, self.clock)
        self.world.tell("sends", source, kind, name)
        reply = self.app.receive(source, signed.headers, signed.body)
        if reply.status != 200:
            raise RuntimeError(f"{name} was answered {reply.status}: {reply.body!r}")
        self.world.tell("answered", name)

    def post(self, address: str, name: str, kind: str) -> None:
        """The same by HTTP; the answer is in the record as what the server hands to its socket."""
        source = "till" if kind == "ring" else "orders"
        signed = delivery(name, kind, Clock())
        self.world.tell("sends", source, kind, name)
        parts = urlsplit(address)
        connection = http.client.HTTPConnection(parts.netloc, timeout=PATIENCE)
        with closing(connection):
            connection.request("POST", f"/{source}", signed.body, signed.headers)
            reply = connection.getresponse()
            said = reply.read()
        if reply.status != 200:
            raise RuntimeError(f"{name} was answered {reply.status}: {said!r}")


def delivery(name: str, kind: str, clock: Clock) -> duly.types.Signed:
    """A genuine delivery of the event with this id."""
    body = json.dumps({"type": kind, "order": name}).encode()
    return duly.sign("standard-webhooks", body, SECRET, id=name, now=clock())


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A real server on the recorded file; its address."""
    command = [
        sys.executable,
        "-m",
        "duly",
        "serve",
        "verification.power_loss.served:app",
        "--port",
        "0",
    ]
    process = subprocess.Popen(
        [*command, "--no-worker", "--no-relay", "--no-access-log"],
        env={**os.environ, "DULY_POWER_FOLDER": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        said = process.stdout.readline() if process.stdout else ""
        found = URL.search(said)
        if found is None:
            raise RuntimeError(f"duly serve did not begin: {said!r}")
        yield found[0]
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()


def main(words: list[str]) -> None:
    """Run every flow in this folder."""
    folder, rounds = Path(words[0]), int(words[1])
    Flows(folder).run(rounds)


if __name__ == "__main__":
    main(sys.argv[1:])
