"""One body, sync and async: run an ``async def`` that never waits in a single step.

Every operation of duly is written once, as ``async def`` over a `Session`. The asynchronous
facade awaits it. The synchronous facade calls `finish`: its sessions are ``async def`` methods too,
but they call a blocking driver and return, so the coroutine never suspends and one ``send(None)``
carries it from its first line to its last.

A session that does try to wait is an async one in a sync call. `finish` notices at the first
suspension, closes the coroutine, so that its ``finally`` blocks run, and raises: it can neither
hang nor leave half an operation behind unseen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from duly.core.errors import SyncAsyncMismatch

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


def finish(operation: Coroutine[Any, Any, T]) -> T:
    """Run an operation over a synchronous session to its end and return what it returns."""
    try:
        operation.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    operation.close()
    raise SyncAsyncMismatch(
        "a synchronous call reached something that must be awaited; use the same verb of duly.aio"
    )
