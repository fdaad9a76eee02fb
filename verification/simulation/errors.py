"""What the simulation itself raises."""

from __future__ import annotations

from typing import NoReturn


class Crashed(BaseException):
    """Ends what is left of a process that is gone; no handler of errors may keep it alive."""


class Violation(Exception):
    """A promise was broken: which, and by what."""

    def __init__(self, promise: str, told: str) -> None:
        super().__init__(f"{promise}: {told}")
        self.promise = promise
        self.told = told


class Endless(Violation):
    """A schedule that does not come to its end."""

    def __init__(self, told: str) -> None:
        super().__init__("I6", told)


def broken(promise: str, told: str) -> NoReturn:
    """Say that a promise is broken."""
    raise Violation(promise, told)
