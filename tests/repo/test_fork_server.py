"""A process from the nursery is like one that Python was started for, and can be told from none."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import fork_server
from tests.support.processes.forked import Forked, run_forked

if TYPE_CHECKING:
    from pathlib import Path

TELL = """
import json, os, sys, warnings
found = {
    "argv": sys.argv, "orig_argv": sys.orig_argv, "path": sys.path[0], "name": __name__,
    "cwd": os.getcwd(), "environment": os.environ.get("CANARY"), "parent": os.getppid(),
    "group": os.getpgid(0) == os.getpid(), "warnoptions": sys.warnoptions,
    "open": [number for number in range(1000) if os.path.exists(f"/proc/self/fd/{number}")],
}
warnings.warn("ignored", RuntimeWarning)
warnings.warn("shown", DeprecationWarning)
warnings.warn("kept to itself", ResourceWarning)
print(json.dumps(found))
print(sys.stdin.read(), end="", file=sys.stderr)
sys.exit(7)
"""
WORDS = ["-W", "ignore:ignored:RuntimeWarning", "-c", TELL, "one", "two"]

pytestmark = pytest.mark.skipif(
    fork_server.CLONE is None, reason="capability missing: CLONE_PARENT"
)


@pytest.mark.parametrize("start", [subprocess.Popen, Forked], ids=["started", "forked"])
def test_it_has_what_it_was_given_and_nothing_else(
    start: type[subprocess.Popen[str]], tmp_path: Path
) -> None:
    reading, writing = os.pipe()
    pipe = subprocess.PIPE
    with start(
        [sys.executable, *WORDS],
        cwd=tmp_path,
        env={**os.environ, "CANARY": "sings"},
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        text=True,
        pass_fds=[reading],
        process_group=0,
    ) as process:
        output, errors = process.communicate("said", timeout=60)
    os.close(reading)
    os.close(writing)

    assert process.returncode == 7
    assert errors == "<string>:10: DeprecationWarning: shown\nsaid"
    assert json.loads(output) == {
        "argv": ["-c", "one", "two"],
        "orig_argv": [sys.executable, *WORDS],
        "path": "",
        "name": "__main__",
        "cwd": str(tmp_path),
        "environment": "sings",
        "parent": os.getpid(),
        "group": True,
        "warnoptions": ["ignore:ignored:RuntimeWarning"],
        "open": [0, 1, 2, reading],
    }


def test_it_can_be_stopped_and_killed_and_its_end_is_told() -> None:
    command = [sys.executable, "-c", "import signal; print(flush=True); signal.pause()"]
    with Forked(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        assert process.poll() is None
        process.kill()
        assert process.wait(60) == -signal.SIGKILL


def test_an_error_is_shown_and_is_its_end() -> None:
    ended = run_forked([sys.executable, "-W", "error", "-c", "import warnings; warnings.warn('x')"])
    assert ended.returncode == 1
    assert ended.stderr.endswith("UserWarning: x\n")


def test_what_the_nursery_does_not_understand_is_started_as_ever() -> None:
    ended = run_forked([sys.executable, "-I", "-c", "import sys; print(sys.flags.isolated)"])
    assert ended.stdout == "1\n"
