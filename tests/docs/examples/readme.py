"""A whole application, set up, started and tried by the commands of its README.

Left out is what a test has already: an environment (`python3 -m venv`, `pip`) and a database
(`createdb`). `curl` and `psql`, which a machine may not have, are played with Python.
"""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.processes.leading import PATIENCE, ROOT, until
from tests.support.serving import clean, rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Below those that the kernel gives to outgoing connections.
PORTS = range(20_000, 32_000)
SITE, BOOKS = "8000", "9000"


class Readme:
    """The commands of a README by the title of their section."""

    def __init__(self, page: Path) -> None:
        self._sections = dict(SECTION.findall(page.read_text()))

    def commands(self, title: str) -> list[str]:
        [block] = SHELL.findall(self._sections[title])
        return str(block).strip().splitlines()

    def command(self, title: str, start: str) -> str:
        """The one command of a section that starts like this."""
        [found] = [one for one in self.commands(title) if one.startswith(start)]
        return found


class Application:
    """A copy of an example, on ports and a database of its own."""

    def __init__(self, name: str, folder: Path, url: str, settings: Mapping[str, str]) -> None:
        shutil.copytree(
            ROOT / "examples", folder, ignore=shutil.ignore_patterns("__pycache__", ".*", "*.db")
        )
        self.here = folder / name
        self.url = url
        self.readme = Readme(self.here / "README.md")
        self._ports = {SITE: free_port(), BOOKS: free_port()}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = {**clean(), **self._read_settings(), **settings, "PATH": path}

    def _read_settings(self) -> dict[str, str]:
        lines = self._moved((self.here / "settings.env").read_text()).splitlines()
        pairs = [line.removeprefix("export ").partition("=") for line in lines if "=" in line]
        return {name: value for name, _, value in pairs}

    def _moved(self, text: str) -> str:
        """The same on the ports of this copy."""
        for shown, port in self._ports.items():
            text = re.sub(rf"\b{shown}\b", str(port), text)
        return text

    def run(self, command: str, **more: str) -> str:
        """Run a command of the README to its end; what it printed."""
        ran = subprocess.run(
            ["sh", "-c", self._moved(command)],
            cwd=self.here,
            env={**self._environment, **more},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE * 3,
        )
        assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
        return ran.stdout + ran.stderr

    def ask(self, command: str) -> Any:
        """What a `curl` of the README would get, as JSON."""
        words = shlex.split(self._moved(command))
        [url] = [word for word in words if word.startswith("http://")]
        body = words[words.index("--json") + 1].encode() if "--json" in words else None
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.loads(answer.read())

    def select(self, command: str) -> list[tuple[Any, ...]]:
        """What a `psql` of the README would print."""
        words = shlex.split(command)
        return rows(self.url, words[words.index("-c") + 1])

    @contextmanager
    def started(self) -> Iterator[dict[str, Process]]:
        """Every process that the README starts, by the first word of its command."""
        with ExitStack() as stack:
            running = {}
            for command in self.readme.commands("Start"):
                words = shlex.split(self._moved(command))
                name = words[1] if words[0] == "duly" else Path(words[0]).name
                running[name] = stack.enter_context(
                    Process(words, self.here, self._environment).open()
                )
            for port in self._ports.values():
                until(lambda port=port: listens(port))  # type: ignore[misc]
            yield running


class Process:
    """One process of an application, and what it says."""

    def __init__(self, words: list[str], here: Path, environment: Mapping[str, str]) -> None:
        self._words, self._here, self._environment = words, here, environment
        self._log = here / f"{'-'.join(words[:2]).replace('/', '_')}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @contextmanager
    def open(self) -> Iterator[Process]:
        with (
            self._log.open("wb") as log,
            subprocess.Popen(
                self._words, cwd=self._here, env=self._environment, stdout=log, stderr=log
            ) as self._process,
        ):
            try:
                yield self
            finally:
                self._process.kill()

    def said(self) -> str:
        return self._log.read_text()

    def stop(self) -> int:
        """Ask it to end, as a service manager does; its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(PATIENCE)


def free_port() -> int:
    """A port that nobody listens on.

    Drawn by the system's dice: pytest-randomly gives tests on two processes the same ones.
    """
    for port in random.SystemRandom().sample(PORTS, 100):
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no free port")


def listens(port: int) -> bool | None:
    """True as soon as a server is there."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return None
    return True
