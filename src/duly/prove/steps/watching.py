"""A step, and the watcher that is called for it."""

from __future__ import annotations

import importlib.util
import itertools
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Over = Callable[[Any, str, Callable[[], None]], None]


class Step(NamedTuple):
    """One statement on its way to a database."""

    # How many came before it, in this process, since the watching began.
    number: int
    text: str
    values: Any
    # The driver's own.
    connection: Any


class Watcher(Protocol):
    """Called in the thread that runs the statement; what it raises, the statement raises."""

    def before(self, step: Step) -> None:
        """Nothing has been sent yet."""

    def after(self, step: Step) -> None:
        """The database has answered, and no other code knows yet."""


# Some drivers run one call of theirs through another: the outer one is the step.
INSIDE: ContextVar[bool] = ContextVar("inside", default=False)


class Steps:
    """Counts the steps and tells the watcher of them."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._numbers = itertools.count()

    @contextmanager
    def step(
        self, text: str, values: Any, connection: Any, over: Over | None = None
    ) -> Iterator[None]:
        """Around one statement; ``over`` may put off telling that it has been carried out."""
        if INSIDE.get():
            yield
            return
        found = Step(next(self._numbers), text, values, connection)
        self._watcher.before(found)
        inside = INSIDE.set(True)
        try:
            yield
        finally:
            INSIDE.reset(inside)
        if over is None:
            self._watcher.after(found)
        else:
            over(connection, text, partial(self._watcher.after, found))


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Tell the watcher of every statement inside the block.

    SQLite's connections are seen from their opening on: those that are open already are not. The
    drivers that are not installed need no watching.
    """
    from duly.prove.steps.sqlite import watch_sqlite

    steps = Steps(watcher)
    with ExitStack() as stack:
        stack.enter_context(watch_sqlite(steps))
        if importlib.util.find_spec("psycopg") is not None:
            from duly.prove.steps.psycopg import watch_psycopg

            stack.enter_context(watch_psycopg(steps))
        if importlib.util.find_spec("asyncpg") is not None:
            from duly.prove.steps.asyncpg import watch_asyncpg

            stack.enter_context(watch_asyncpg(steps))
        yield


@contextmanager
def replace_attribute(owner: Any, name: str, new: Any) -> Iterator[None]:
    """Another function under a name, for a while."""
    old = getattr(owner, name)
    setattr(owner, name, new)
    try:
        yield
    finally:
        setattr(owner, name, old)
