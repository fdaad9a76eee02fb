"""What the outside world has seen: acknowledgements, calls, messages, and that a fault has struck.

One file that everybody appends to. A line that was written is there whatever becomes of its writer.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class Journal:
    """The lines of one case."""

    def __init__(self, path: str) -> None:
        self.path = path

    def write(self, kind: str, **facts: Any) -> None:
        """Append one line, whole or not at all."""
        line = json.dumps({"kind": kind, **facts}).encode() + b"\n"
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, line)
        finally:
            os.close(file)

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The lines of one kind, in their order."""
        lines = Path(self.path).read_text().splitlines()
        return [line for line in map(json.loads, lines) if line["kind"] == kind]

    def clear(self) -> None:
        """Begin anew."""
        Path(self.path).write_bytes(b"")
