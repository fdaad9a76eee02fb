"""Walks one delivery through the code: `python -m tests.repo.walk`, on a PostgreSQL that it starts.

A real ``duly serve`` receives one signed delivery over HTTP. Its handler runs as a job, writes a
row and stages a message with ``tx.send``. A profiler in the server's process notes every function
of duly that the delivery passes, in the order of their first calls: everything below the four
functions in `ENTRIES`, from the request that was read to the COMMIT of the job. The HTTP protocol,
the access log, the polling that finds nothing and the heartbeat are left out; so are comprehensions
and lambdas, which have no name to look for. A first delivery warms up what is opened only once.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

ROOT = Path(__file__).parents[2]
SOURCES = str(ROOT / "src/duly") + os.sep
PROTOCOL = SOURCES + "server" + os.sep
SECRET = "whsec_walk"
PATIENCE = 60.0
# Where the walk begins: a request, the commit of its batch, the fetch of its job, its run.
ENTRIES = (
    ("receiver/receiver.py", "Receiver.submit"),
    ("receiver/group_commit.py", "GroupCommit._commit_batches"),
    ("worker/fetcher.py", "Fetcher._fetch_batch"),
    ("worker/run_job.py", "execute_job"),
)
NAMELESS = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<lambda>", "<module>")
APP = """
import os
import duly

app = duly.Duly(os.environ["WALK_URL"])
app.source("stripe", secret=os.environ["WALK_SECRET"])


@app.on("stripe", "*")
def ship(event, tx):
    tx.execute("INSERT INTO shipments (event) VALUES (:id)", id=event.id)
    tx.send("https://warehouse.example/shipments", json={"event": event.id})
"""


class Step(NamedTuple):
    """One function of the walk."""

    file: str  # below src/duly
    function: str
    line: int

    @property
    def package(self) -> str:
        """The package of the file, or the module where it stands alone."""
        return self.file.partition("/")[0].removesuffix(".py")


class Walk(NamedTuple):
    """The functions that one delivery passes, in the order of their first calls."""

    steps: tuple[Step, ...]

    @property
    def files(self) -> list[str]:
        """Each file once, in the order in which the walk enters it."""
        return list(dict.fromkeys(step.file for step in self.steps))

    @property
    def packages(self) -> list[str]:
        """The packages as the walk passes them: one entry for each change."""
        names = [step.package for step in self.steps]
        changed = [one for before, one in itertools.pairwise(names) if one != before]
        return names[:1] + changed

    def summary(self) -> str:
        """The three figures of house.md."""
        changes = len(self.packages) - 1
        return f"{len(self.steps)} functions, {len(self.files)} files, {changes} package changes"


class Recorder:
    """Notes the functions that are called below each entry while it is switched on."""

    def __init__(self) -> None:
        self.on = False
        self._below: list[dict[CodeType, Step]] = [{} for _ in ENTRIES]

    def note_call(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call, as a profiler of `sys.setprofile`."""
        code = frame.f_code
        if not self.on or event != "call" or code.co_name in NAMELESS:
            return
        if not code.co_filename.startswith(SOURCES) or code.co_filename.startswith(PROTOCOL):
            return
        if (entry := entry_above(frame)) is not None:
            self._below[entry].setdefault(code, step_of(code))

    def write(self, path: Path) -> None:
        """Write each function once, entry after entry: they overlap in time as chance has it."""
        part = path.with_suffix(".part")
        steps = dict.fromkeys(step for below in self._below for step in below.values())
        part.write_text(json.dumps(list(steps)))
        part.rename(path)


def step_of(code: CodeType) -> Step:
    """A function of duly, by its place in the tree."""
    file = code.co_filename.removeprefix(SOURCES)
    return Step(file, code.co_qualname, code.co_firstlineno)


def entry_above(frame: FrameType) -> int | None:
    """Which entry this call is, or was made below; None for those outside of the walk."""
    above: FrameType | None = frame
    while above is not None:
        code = above.f_code
        if code.co_filename.startswith(SOURCES):
            place = step_of(code)[:2]
            if place in ENTRIES:
                return ENTRIES.index(place)
        above = above.f_back
    return None


def serve_traced(folder: Path) -> int:
    """Run ``duly serve`` in this process, traced from SIGUSR1 until SIGUSR2."""
    from duly.cli.main import main

    recorder = Recorder()

    def start(*_: object) -> None:
        recorder.on = True
        (folder / "tracing").touch()

    def stop(*_: object) -> None:
        recorder.on = False
        recorder.write(folder / "walk.json")

    signal.signal(signal.SIGUSR1, start)
    signal.signal(signal.SIGUSR2, stop)
    threading.setprofile(recorder.note_call)
    sys.setprofile(recorder.note_call)
    return main(["serve", f"{folder}/shop.py:app", "--port", "0", "--no-relay", "--no-access-log"])


def trace_delivery(url: str) -> Walk:
    """Serve on a migrated PostgreSQL, and walk the second of two deliveries."""
    import psycopg

    with (
        tempfile.TemporaryDirectory(prefix="duly-walk-") as name,
        psycopg.connect(url, autocommit=True) as database,
    ):
        folder = Path(name)
        (folder / "shop.py").write_text(APP)
        database.execute("CREATE TABLE IF NOT EXISTS shipments (event text NOT NULL)")
        with running_server(folder, url) as (process, address):
            deliver(address, "evt_warm_up", database)
            process.send_signal(signal.SIGUSR1)
            wait_for((folder / "tracing").exists)
            deliver(address, "evt_walked", database)
            process.send_signal(signal.SIGUSR2)
            wait_for((folder / "walk.json").exists)
        return Walk(tuple(Step(*each) for each in json.loads((folder / "walk.json").read_text())))


@contextmanager
def running_server(folder: Path, url: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The traced server, and where it listens."""
    log = folder / "server.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.repo.walk", "--serve", str(folder)],
            cwd=ROOT,
            env={**os.environ, "WALK_URL": url, "WALK_SECRET": SECRET},
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )
    try:
        wait_for(lambda: address_in(log) or process.poll() is not None)
        if (address := address_in(log)) is None:
            raise RuntimeError(f"duly serve did not start: {log.read_text()}")
        yield process, address
    finally:
        process.terminate()
        process.wait(PATIENCE)


def address_in(log: Path) -> str | None:
    """Where the server says that it listens."""
    import re

    found = re.search(r"http://127\.0\.0\.1:\d+", log.read_text())
    return None if found is None else found[0]


def deliver(address: str, event: str, database: Any) -> None:
    """Post one signed event, and wait until its job is done."""
    import urllib.request

    import duly

    body = json.dumps({"id": event, "type": "order.paid", "created": int(time.time())}).encode()
    signed = duly.sign("stripe", body, SECRET)
    request = urllib.request.Request(f"{address}/stripe", signed.body, dict(signed.headers))
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        assert answer.status == 200
    ended = (
        "SELECT 1 FROM duly_history h JOIN duly_events e ON e.id = h.event WHERE e.event_id = %s"
    )
    wait_for(lambda: database.execute(ended, [event]).fetchone())


def wait_for(condition: Any) -> None:
    """Look again and again until the condition holds."""
    until = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError("the walk did not come to its end")
        time.sleep(0.01)


def render(walk: Walk) -> str:
    """The walk as CONTRIBUTING prints it: package, file, and the functions in their order."""
    lines: list[str] = []
    package = file = ""
    for step in walk.steps:
        if step.package != package:
            package, file = step.package, ""
        if step.file != file:
            file = step.file
            lines.append(f"{file}: {step.function}")
        else:
            lines[-1] += f", {step.function}"
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Print the walk, or serve for it."""
    if arguments[:1] == ["--serve"]:
        return serve_traced(Path(arguments[1]))
    import duly
    from tests.support.servers import create_database, drop_database
    from tests.support.servers import postgres as running_postgres

    with running_postgres() as server:
        url = create_database(server)
        try:
            duly.store(url).migrate()
            walk = trace_delivery(url)
        finally:
            drop_database(server, url)
    print(render(walk))
    print(walk.summary())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
