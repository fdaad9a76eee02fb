"""The demonstration tells the truth: its books balance, they can fail to, and nothing is left."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from duly.tools.demo.audit import read

LINES = 13  # of the audit, see test_demo_audit
SEEDS = count(os.getpid() * 1000)  # a seed of its own by which a run's processes are recognised


class Demo:
    """The demonstration as a user starts it, its output in a pipe and its folder in ours."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self._seed = str(next(SEEDS))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "duly.tools.demo", "--seed", self._seed, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(folder), "PYTHONIOENCODING": "utf-8"},
        )
        assert self.process.stdout is not None
        self.opening = self.process.stdout.readline()

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self) -> str:
        output, errors = self.process.communicate(timeout=60)
        assert errors == ""
        return output

    def left_behind(self) -> list[str]:
        return [str(path) for path in self.folder.iterdir()] + self.processes()

    def processes(self) -> list[str]:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:  # ended meanwhile
                continue
            if self._seed.encode() in words and int(path.parent.name) != self.process.pid:
                found.append(path.parent.name)
        return found

    def wait_until_it_races(self) -> None:
        assert self.process.stdout is not None
        self.wait_for("racing")
        assert self.process.stdout.readline().strip()  # the next line comes two seconds later

    def wait_for(self, text: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if text in line:
                return
        pytest.fail(f"the demonstration ended before it printed {text!r}")


@pytest.fixture
def demo_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "demo"
    folder.mkdir()
    return folder


@pytest.mark.slow
def test_every_line_balances_after_a_race_with_kills(demo_folder: Path) -> None:
    demo = Demo(demo_folder, "--seconds", "3", "--processes", "4")

    output = demo.end()

    assert demo.process.returncode == 0, output
    assert output.count("✓") == LINES
    assert "✗" not in output
    assert killed(output) > 0
    assert output.rstrip().endswith("README.md")
    assert demo.left_behind() == []


@pytest.mark.slow
def test_the_database_stays_where_it_is_said_to_be_if_it_is_to_be_kept(demo_folder: Path) -> None:
    demo = Demo(demo_folder, "--seconds", "0.5", "--processes", "2", "--keep")

    output = demo.end()

    [kept] = [line.removeprefix("Kept: ") for line in output.splitlines() if "Kept: " in line]
    with closing(sqlite3.connect(kept)) as connection:
        assert read(connection).effects


@pytest.mark.slow
def test_ctrl_c_ends_the_race_early_and_still_audits_it(demo_folder: Path) -> None:
    demo = Demo(demo_folder, "--seconds", "60", "--processes", "3")
    demo.wait_until_it_races()

    demo.interrupt()
    output = demo.end()

    assert demo.process.returncode == 0, output
    assert output.count("✓") == LINES
    assert demo.left_behind() == []


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_end_leaves_nothing_behind(demo_folder: Path, ending: signal.Signals) -> None:
    demo = Demo(demo_folder, "--seconds", "60", "--processes", "3")
    demo.wait_until_it_races()

    demo.process.send_signal(ending)

    assert "✓" not in demo.end()
    assert demo.process.returncode == 128 + ending
    assert demo.left_behind() == []


@pytest.mark.slow
def test_a_second_ctrl_c_quits_at_once(demo_folder: Path) -> None:
    demo = Demo(demo_folder, "--seconds", "60", "--processes", "3")
    demo.wait_until_it_races()

    demo.interrupt()
    demo.wait_for("faults are over")  # the first one was heard
    demo.interrupt()

    assert "✓" not in demo.end()
    assert demo.process.returncode == 128 + signal.SIGINT
    assert demo.left_behind() == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_workers_and_folder_go_even_if_the_parent_is_killed(demo_folder: Path) -> None:
    demo = Demo(demo_folder, "--seconds", "60", "--processes", "3")
    demo.wait_until_it_races()
    assert demo.processes()

    demo.process.kill()
    demo.end()

    deadline = time.monotonic() + 20
    while demo.left_behind() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert demo.left_behind() == []


@pytest.mark.slow
def test_a_reader_that_stops_reading_ends_it(demo_folder: Path) -> None:
    demo = Demo(demo_folder, "--seconds", "60", "--processes", "2")
    assert demo.process.stdout is not None
    assert demo.process.stderr is not None

    demo.process.stdout.close()

    assert demo.process.wait(timeout=60) == 1
    assert demo.process.stderr.read() == ""
    demo.process.stderr.close()
    assert demo.left_behind() == []


@pytest.mark.parametrize("options", [["--processes", "1"], ["--seconds", "0"]])
def test_an_option_out_of_bounds_is_refused_with_its_bounds(options: list[str]) -> None:
    refused = subprocess.run(
        [sys.executable, "-m", "duly.tools.demo", *options],
        capture_output=True,
        text=True,
        check=False,
    )

    assert refused.returncode == 2
    assert f"{options[0]} must be " in refused.stderr


def killed(output: str) -> int:
    [line] = [line for line in output.splitlines() if line.startswith("Faults: ")]
    return int(line.split()[1].replace(",", ""))
