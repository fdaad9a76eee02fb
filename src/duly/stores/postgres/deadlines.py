"""Connections of duly's own that give up on a server which takes a statement and never answers.

TCP's timeouts end a wait only when the other host is gone. A host that is up while its server is
stuck, or a proxy that swallows the reply, would hold a sync caller for ever. psycopg runs each
statement as a generator that it resumes every 0.1 s even if nothing has arrived; these connections
stop it at a deadline, close themselves, and leave it to the runner to run the operation again.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

if TYPE_CHECKING:
    from psycopg.abc import PQGen

T = TypeVar("T")
# Seconds. A statement of duly's takes milliseconds once it has its locks; the wait for those is
# added.
ANSWER = 3.0


class NoAnswer(psycopg.errors.QueryCanceled):
    """The server took a statement and did not answer it in time.

    A kind of `QueryCanceled`, because psycopg expects one while it winds up an exchange that was
    cancelled, and then lets the cancellation out instead.
    """

    sqlstate = None


def stop_at_deadline(deadline: float, steps: PQGen[T]) -> PQGen[T]:
    """Run psycopg's steps; raise `NoAnswer` once the deadline is over and nothing has arrived."""
    try:
        wanted = next(steps)
        while True:
            ready = yield wanted
            if not ready and monotonic() > deadline:
                steps.close()
                raise NoAnswer("the server did not answer in time")
            wanted = steps.send(ready)
    except StopIteration as ended:
        result: T = ended.value
        return result


class DeadlineConnection(psycopg.Connection[Any]):
    """A sync connection that waits ``answer_timeout`` seconds for each answer."""

    answer_timeout = ANSWER

    def wait(self, gen: Any, *positional: Any, **options: Any) -> Any:
        """Run the steps of one exchange with the server."""
        try:
            return super().wait(
                stop_at_deadline(monotonic() + self.answer_timeout, gen), *positional, **options
            )
        except NoAnswer:
            self.pgconn.finish()
            raise


class DeadlineAsyncConnection(psycopg.AsyncConnection[Any]):
    """An async connection that waits ``answer_timeout`` seconds for each answer."""

    answer_timeout = ANSWER

    async def wait(self, gen: Any, *positional: Any, **options: Any) -> Any:
        """Run the steps of one exchange with the server."""
        steps = stop_at_deadline(monotonic() + self.answer_timeout, gen)
        try:
            return await super().wait(steps, *positional, **options)
        except NoAnswer:
            self.pgconn.finish()
            raise
