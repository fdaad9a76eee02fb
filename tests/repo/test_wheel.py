"""The wheel alone is enough: installed into an empty environment, it writes an app, serves it and
delivers to it. A file that only a checkout has would be missing here."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.processes.leading import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.slow, pytest.mark.wide]

ROOT = Path(__file__).parents[2]
SECRET = "whsec_of_the_wheel"


def run(*command: object, cwd: Path, **environment: str) -> str:
    """What a command prints; it must succeed."""
    ended = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**outside(), **environment},
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def outside() -> dict[str, str]:
    """The environment of a user who knows nothing of this checkout; pip's settings stay."""
    left_out = ("DULY_", "PYTEST_", "PYTHONPATH", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(left_out)}


@contextmanager
def serving(program: Path, folder: Path) -> Iterator[str]:
    """The address of ``duly serve`` on the app in a folder."""
    log = folder / "serve.log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            [program, "serve", "app:app", "--port", "0"],
            cwd=folder,
            env={**outside(), "STRIPE_WEBHOOK_SECRET": SECRET},
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            yield until(lambda: address_in(log, process))
        finally:
            process.terminate()


def address_in(log: Path, process: subprocess.Popen[bytes]) -> str | None:
    """Where the server listens, once it says so."""
    assert process.poll() is None, log.read_text()
    found = re.search(r"http://127\.0\.0\.1:\d+", log.read_text())
    return None if found is None else found[0]


def test_the_wheel_writes_serves_and_delivers_in_an_empty_environment(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    run(*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path / "dist", ROOT, cwd=tmp_path)
    (wheel,) = (tmp_path / "dist").glob("duly-*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "env", cwd=tmp_path)
    bin_ = tmp_path / "env/bin"
    run(bin_ / "python", *pip[1:], "install", "--quiet", f"{wheel}[serve]", cwd=tmp_path)
    duly, folder = bin_ / "duly", tmp_path / "shop"
    folder.mkdir()
    steps = json.loads(run(duly, "init", "--json", "--provider", "stripe", cwd=folder))["steps"]
    command = shlex.split(steps[-1])
    assert command[:2] == ["duly", "deliver"]
    with serving(duly, folder) as address:
        told = run(
            duly, "deliver", "stripe", f"{address}/stripe", "--secret", SECRET, "--json", cwd=folder
        )
    assert "accepted" in told
