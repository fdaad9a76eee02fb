"""Where a job or a message failed: the last line of the user's own code."""

from __future__ import annotations

import json
import re
import sysconfig
from pathlib import Path
from typing import Any

FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
OURS = str(Path(__file__).parents[2])
NOT_THEIRS = (sysconfig.get_path("stdlib"), OURS, "<")


def place_of(error: Any) -> str:
    """The line that the error of a job or a message came from, where that is known."""
    return "" if error is None else place_in(json.loads(bytes(error)).get("traceback") or "")


def place_in(traceback: str) -> str:
    """The last line of the user's own that a traceback names."""
    place = ""
    for frame in FRAME.finditer(traceback):
        if not frame["file"].startswith(NOT_THEIRS) and "site-packages" not in frame["file"]:
            place = f" ({frame['file']}, line {frame['line']})"
    return place
