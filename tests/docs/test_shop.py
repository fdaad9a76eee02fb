"""``make run``: the sample shop is served, and the line that it prints works as it stands."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from tests.support.processes.leading import PATIENCE, ROOT, until
from tests.support.serving import clean

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

COLOUR = re.compile(r"\x1b\[\d*m")
TRY = "try it from another terminal:"


@pytest.fixture
def make() -> str:
    found = shutil.which("make")
    if found is None or not (ROOT / ".venv" / "bin" / "duly").exists():
        pytest.skip("needs make and the .venv that it sets up")
    return found


class Typed:
    """A program on a terminal of its own, where a person can read and press Ctrl-C."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        self.process = process
        self._terminal = terminal
        self._seen = b""

    def read(self) -> str:
        """Everything so far."""
        with suppress(OSError):  # its end, or nothing at the moment
            while chunk := os.read(self._terminal, 65536):
                self._seen += chunk
        return COLOUR.sub("", self._seen.decode()).replace("\r\n", "\n")

    def tells(self, text: str) -> str:
        return until(lambda: seen if text in (seen := self.read()) else None)

    def line_after(self, text: str) -> str:
        """The whole line below the one that says so."""
        found = until(lambda: re.search(f"{text}\n  (.*)\n", self.read()))
        return str(found[1])

    def press_ctrl_c(self) -> None:
        os.write(self._terminal, b"\x03")


@contextmanager
def typed(*command: str, **environment: str) -> Iterator[Typed]:
    """A program on a new terminal, in a session of its own as a shell would make it."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    with subprocess.Popen(
        # `setsid --ctty` makes the terminal that of the session, so that Ctrl-C is sent to it.
        ["setsid", "--ctty", "--wait", *command],
        cwd=ROOT,
        env={**clean(), **environment},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        try:
            yield Typed(process, ours)
        finally:
            os.close(ours)  # the terminal hangs up on what is left
            with suppress(ProcessLookupError):  # which under nohup does not hear of it
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()


def pasted(line: str) -> subprocess.CompletedProcess[str]:
    """The line in another terminal."""
    return subprocess.run(
        shlex.split(line),
        cwd=ROOT,
        env=clean(),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def payments(database: Path) -> list[tuple[str, int]]:
    """For each event its payment, and how often it is recorded."""
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(
            "SELECT payment, count(*) FROM payments GROUP BY event ORDER BY min(rowid)"
        ).fetchall()


def github(line: str) -> str:
    """The same line for the other source."""
    return re.sub("/stripe .*", "/github --secret github-example-secret", line).replace(
        "deliver stripe", "deliver github"
    )


def test_make_run_and_the_line_it_prints_record_each_event_once(make: str, tmp_path: Path) -> None:
    database = tmp_path / "shop.db"
    with typed(make, "run", "ARGS=--port 0", SHOP_DATABASE=str(database)) as shop:
        line = shop.line_after(TRY)
        assert line.startswith(".venv/bin/duly deliver stripe http://127.0.0.1:")
        sent = pasted(f"{line} --duplicate 3")
        assert (sent.returncode, sent.stderr) == (0, "")
        assert "3 copies: 1 accepted, 2 duplicate" in sent.stdout
        [(paid, times)] = payments(database)
        assert (paid.startswith("pi_"), times) == (True, 1)
        [event] = set(re.findall(r"evt_\w+", sent.stdout))
        said = shop.tells("recorded the payment")
        assert f"info {event}: recorded the payment of {paid}, once for this event" in said
        assert "50 copies: 1 accepted, 49 duplicate" in pasted(f"{line} --concurrent 50").stdout
        assert [times for _, times in payments(database)] == [1, 1]
        until(lambda: shop.read().count("mailed the receipt of pi_") == 2 or None)
        assert pasted(github(line)).stdout.startswith("200 accepted")
        shop.tells("pull_request.opened: pull request ")
        shop.press_ctrl_c()
        shop.process.wait(PATIENCE)
        said = shop.tells("ended: ")
    assert "200 accepted   POST /stripe evt_" in said
    assert "the worker has ended: 3 done" in said
    assert said.count("mailed the receipt of pi_") == 2
    assert "Traceback" not in said
    assert "Error" not in said


def test_ctrl_c_ends_all_workers_of_the_shop(make: str, tmp_path: Path) -> None:
    options = "ARGS=--port 0 --workers 2"
    with typed(make, "run", options, SHOP_DATABASE=str(tmp_path / "shop.db")) as shop:
        line = shop.line_after(TRY)
        assert "1 accepted, 9 duplicate" in pasted(f"{line} --concurrent 10").stdout
        shop.press_ctrl_c()
        shop.process.wait(PATIENCE)
        said = shop.tells("draining 2 workers")
        assert "nothing listens there" in pasted(line).stdout
    assert "Traceback" not in said
    assert "Error" not in said
    assert [times for _, times in payments(tmp_path / "shop.db")] == [1]


def test_a_payment_of_nobodys_order_is_not_kept_so_that_it_can_be_sent_again(
    make: str, tmp_path: Path
) -> None:
    with typed(make, "run", "ARGS=--port 0", SHOP_DATABASE=str(tmp_path / "shop.db")) as shop:
        body = tmp_path / "body.json"
        payment = {"id": "pi_2", "metadata": {"order_id": "order-2"}}
        told = {"id": "evt_1", "type": "payment_intent.succeeded"}
        body.write_text(json.dumps({**told, "data": {"object": payment}}))
        line = shop.line_after(TRY)
        assert pasted(f"{line} --body {body}").stdout.startswith("500 HANDLER_FAILED")
        with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
            connection.execute("INSERT INTO purchases (id, amount) VALUES ('order-2', 700)")
        assert pasted(f"{line} --body {body}").stdout.startswith("200 accepted")
    assert payments(tmp_path / "shop.db") == [("pi_2", 1)]
