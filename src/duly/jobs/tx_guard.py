"""Knowing that a handler's transaction is open around the code that is running."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from duly.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

HANDLER: ContextVar[str | None] = ContextVar("duly_handler", default=None)


@contextmanager
def handler_transaction(handler: str) -> Iterator[None]:
    """While a handler runs in a transaction that duly opened for it."""
    token = HANDLER.set(handler)
    try:
        yield
    finally:
        try:
            HANDLER.reset(token)
        except ValueError:  # the block is left in another context than it was entered in
            HANDLER.set(None)


def refuse_inside(verb: str, instead: str, would: str = "would be committed") -> None:
    """Refuse what would last, or have happened, apart from the handler's transaction."""
    handler = HANDLER.get()
    if handler is not None:
        raise UsageError(
            f"{verb} inside {handler}, whose transaction is open, {would} even if that is rolled "
            f"back: {instead}"
        )
