"""Errors of the prover itself, as opposed to its findings."""

from __future__ import annotations

import sqlite3
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING

from duly.core.errors import DulyError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def not_called_unsafe() -> Iterator[None]:
    """Turn any error inside the block into a proof that could not be made.

    The exit code of a command that failed is 1, and that of a handler which is not safe as well.
    """
    try:
        yield
    except (UsageError, BrokenPipeError):
        raise
    except Exception as problem:
        if not isinstance(problem, DulyError | OSError | sqlite3.Error):
            traceback.print_exc()
        raise UsageError(
            "the proof itself failed, which says nothing about the handler: "
            f"{type(problem).__name__}: {problem}"
        ) from problem
