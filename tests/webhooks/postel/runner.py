"""Sends Postel's cases to a receiver and reads its verdicts, knowing nothing of duly.

A 2xx with ``X-Postel-Dedup-Result: duplicate`` is a duplicate, another 2xx an accept, and anything
else a rejection whose code stands in ``X-Postel-Verify-Error`` or in the field ``error_code``.
"""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.webhooks.postel.vectors import Case

TIMEOUT = 20.0
KINDS: dict[str, type] = {"object": dict, "array": list, "string": str}


class Runner:
    """Tries cases against the receiver at an address."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address

    def outcomes(self, case: Case) -> tuple[str, ...]:
        """What every copy of a case was answered, in no order."""
        if case.seen_before:
            seeded = self._send(case, None)
            assert seeded == "accept", f"the receiver knew {case} before anybody told it: {seeded}"
        copies = len(case.outcomes)
        together = threading.Barrier(copies)
        with ThreadPoolExecutor(copies) as threads:
            return tuple(sorted(threads.map(lambda _: self._send(case, together), range(copies))))

    def _send(self, case: Case, together: threading.Barrier | None) -> str:
        connection = HTTPConnection(*self._address, timeout=TIMEOUT)
        try:
            connection.connect()
            if together is not None:
                together.wait(TIMEOUT)
            connection.request(case.method, case.path, case.body, case.headers)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        if case.schema is not None:
            check(json.loads(body), case.schema)
        return verdict(response.status, dict(response.getheaders()), body)


def verdict(status: int, headers: dict[str, str], body: bytes) -> str:
    """What an answer means."""
    lower = {name.lower(): value for name, value in headers.items()}
    if 200 <= status < 300:
        return "duplicate" if lower.get("x-postel-dedup-result") == "duplicate" else "accept"
    found: str = lower.get("x-postel-verify-error") or json.loads(body).get("error_code", "")
    return found or f"status {status} without a code"


def check(value: Any, schema: dict[str, Any]) -> None:
    """Refuse a value that a JSON Schema does not allow; of the language, what the cases speak."""
    unknown = schema.keys() - {"type", "required", "properties", "items", "not", "anyOf"}
    assert not unknown, f"this runner does not know the words {sorted(unknown)} of JSON Schema"
    if "type" in schema:
        assert isinstance(value, KINDS[schema["type"]]), f"{value!r} is no {schema['type']}"
    if isinstance(value, dict):
        lacking = [name for name in schema.get("required", ()) if name not in value]
        assert not lacking, f"{value!r} lacks {lacking}"
    for part, below in parts(value, schema):
        check(part, below)
    if "anyOf" in schema:
        assert any(allows(value, one) for one in schema["anyOf"]), f"{value!r} fits none of them"
    if "not" in schema:
        assert not allows(value, schema["not"]), f"{value!r} is what it must not be"


def parts(value: Any, schema: dict[str, Any]) -> list[tuple[Any, dict[str, Any]]]:
    """The values within a value, each with its own schema."""
    if isinstance(value, list):
        return [(item, schema.get("items", {})) for item in value]
    if isinstance(value, dict):
        told = schema.get("properties", {})
        return [(value[name], below) for name, below in told.items() if name in value]
    return []


def allows(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value is as a schema says."""
    try:
        check(value, schema)
    except AssertionError:
        return False
    return True
