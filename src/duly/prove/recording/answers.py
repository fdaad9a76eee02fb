"""What recorded calls are answered: 200 with ``{}``, unless a file says otherwise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from duly.core.errors import UsageError
from duly.core.validation import kind

FORM = '{"POST https://api.example/*": {"status": 201, "json": {"id": "ch_1"}}}'


@dataclass(frozen=True, slots=True)
class CannedAnswer:
    """What the other side says."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})


class CannedAnswers:
    """Answers by method and URL; the first pattern that matches counts."""

    def __init__(self, given: object = None) -> None:
        if not isinstance(given, Mapping) and given is not None:
            raise UsageError(f"answers must be a mapping such as {FORM}, not {kind(given)}")
        known = {} if given is None else dict(given)
        self._known = [(str(pattern), answer_of(told)) for pattern, told in known.items()]

    def find(self, method: str, url: str) -> CannedAnswer:
        """The answer to a call."""
        for pattern, answer in self._known:
            if fnmatchcase(f"{method} {url}", pattern) or fnmatchcase(url, pattern):
                return answer
        return CannedAnswer()


def answer_of(told: object) -> CannedAnswer:
    """One answer, as it is written in a file."""
    if not isinstance(told, Mapping) or not set(told) <= {"status", "json", "text", "headers"}:
        raise UsageError(
            f"an answer has status, json or text, and headers: write answers like {FORM}"
        )
    status: Any = told.get("status", 200)
    if not isinstance(status, int) or not 200 <= status <= 599:
        raise UsageError("the status of an answer must be a number from 200 to 599")
    headers = {str(name).lower(): str(value) for name, value in told.get("headers", {}).items()}
    if "text" in told:
        return CannedAnswer(
            status, str(told["text"]).encode(), {"content-type": "text/plain", **headers}
        )
    body = json.dumps(told.get("json", {})).encode()
    return CannedAnswer(status, body, {"content-type": "application/json", **headers})
