"""Functions that users register: whether they block or are awaited, and what they ask for."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from duly.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Mode = Literal["sync", "async"]


def mode_of(call: Any, what: str) -> Mode:
    """Whether a function must be awaited; ``what`` names it in an error."""
    inner = call
    while isinstance(inner, partial):
        inner = inner.func
    target: Any = inner if inspect.isroutine(inner) else type(inner).__call__
    if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
        raise UsageError(f"{what} is a generator and would never run: write no `yield` in it")
    return "async" if inspect.iscoroutinefunction(target) else "sync"


def requested_parameters(
    call: Callable[..., Any], offered: Sequence[str], what: str, hint: str
) -> frozenset[str]:
    """Which of what is offered a function asks for, by the names of its parameters."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except ValueError:
        raise UsageError(
            f"the parameters of {what} cannot be told: wrap it in a function of your own"
        ) from None
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    named = {one.name for one in parameters if one.kind in plain}
    known = named.intersection(offered)
    unknown = [
        one.name
        for one in parameters
        if one.name not in known
        and (one.default is one.empty or one.kind is inspect.Parameter.POSITIONAL_ONLY)
        and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    if unknown:
        raise UsageError(f"{what} asks for {unknown[0]!r}: {hint}")
    return frozenset(known)


def refuse_unawaited(answer: object, what: str) -> None:
    """Refuse what a function returned that was meant to be awaited, and would never run."""
    if hasattr(answer, "__await__") or inspect.isgenerator(answer) or inspect.isasyncgen(answer):
        close = getattr(answer, "close", None)
        if close is not None:
            close()  # or Python complains that it was never awaited
        raise UsageError(f"{what} returned something to await: make it `async def`")
