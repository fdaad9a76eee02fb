"""A missing library, said as the command that installs it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from duly.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def needs(extra: str, what: str) -> Iterator[None]:
    """Turn a failed import into the name of the extra that brings the library."""
    try:
        yield
    except ImportError as problem:
        raise UsageError(
            f"{what} must be installed for this: {install_command(extra)}"
        ) from problem


def install_command(extra: str) -> str:
    """Return the command that installs an extra; on a package index the name may be another's."""
    return f"pip install '.[{extra}]' in a checkout of duly"
