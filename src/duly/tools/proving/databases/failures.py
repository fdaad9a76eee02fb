"""Why a job or a message was not done, as duly has written it down."""

from __future__ import annotations

import json
import re
import sysconfig
from pathlib import Path
from typing import Any

from duly.tools.proving.databases.base import Left

FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
OURS = str(Path(__file__).parents[3])
NOT_THEIRS = (sysconfig.get_path("stdlib"), OURS, "<")


def left_of(what: str, name: str, state: str, error: Any) -> Left:
    """One that is left, by its row."""
    if error is None:
        return Left(what, name, state, "")
    told = json.loads(bytes(error))
    words = " ".join(f"{told.get('type', '')}: {told.get('message', '')}".split())
    return Left(what, name, state, words, place_in(told.get("traceback") or ""))


def place_in(traceback: str) -> str:
    """The last line of the user's own that a traceback names."""
    place = ""
    for frame in FRAME.finditer(traceback):
        if not frame["file"].startswith(NOT_THEIRS) and "site-packages" not in frame["file"]:
            place = f" ({frame['file']}, line {frame['line']})"
    return place
