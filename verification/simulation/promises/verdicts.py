"""Saying that a promise is broken."""

from __future__ import annotations

from typing import NoReturn

from verification.simulation.errors import Violation


def broken(promise: str, told: str) -> NoReturn:
    """It is."""
    raise Violation(promise, told)
