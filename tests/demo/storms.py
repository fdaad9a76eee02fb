"""A storm as a user starts it: a command, its output in a pipe, its folder in the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = "import sys; from duly.cli.main import main; sys.exit(main(sys.argv[1:]))"
COMMAND = [sys.executable, "-c", PROGRAM]


class Storm:
    """A running command."""

    def __init__(self, folder: Path, *arguments: str, command: str = "demo") -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [*COMMAND, command, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(folder), "PYTHONIOENCODING": "utf-8"},
        )

    def read_until(self, text: str) -> None:
        """Read what it prints up to a line with that text."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if text in line:
                return
        assert self.process.stderr is not None
        raise AssertionError(f"it ended before it printed {text!r}: {self.process.stderr.read()}")

    def end(self) -> str:
        """Wait for its end; what it printed since."""
        output, errors = self.process.communicate()
        assert errors == "", errors
        return output

    def document(self) -> dict[str, Any]:
        """Wait for its end; the document that it printed."""
        output, errors = self.process.communicate()
        assert output, errors
        found: dict[str, Any] = json.loads(output)
        return found

    def left_behind(self) -> list[str]:
        """Files in the folder, and processes that have files open there."""
        return [str(path) for path in self.folder.iterdir()] + self.processes()

    def processes(self) -> list[str]:
        """Processes that write into the folder."""
        found = []
        for path in Path("/proc").glob("[0-9]*/fd/2"):
            try:
                target = str(path.readlink())
            except OSError:  # ended meanwhile, or not ours to see
                continue
            if target.startswith(str(self.folder)):
                found.append(path.parts[2])
        return found
