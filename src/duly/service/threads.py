"""Threads that may be left behind: one that hangs cannot be ended, and must not be waited for."""

from __future__ import annotations

import asyncio
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
# The name of each; `has_hung_handlers` looks for it when a process ends.
THREAD_NAME: Final = "duly-thread"


class Threads(NamedTuple):
    """How a worker makes threads; the simulation hands it its own."""

    thread: Callable[..., threading.Thread] = threading.Thread
    event: Callable[[], threading.Event] = threading.Event
    queue: Callable[[], SimpleQueue[Any]] = SimpleQueue


THREADS = Threads()


async def run_on_thread(call: Callable[[], T]) -> T:
    """Make a blocking call on a thread of its own, and return what it returns."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def deliver(answer: list[T], problem: BaseException | None) -> None:
        if future.done():
            return
        if problem is None:
            future.set_result(answer[0])
        else:
            future.set_exception(problem)

    def run_call() -> None:
        answer, problem = result_or_error(call)
        try:
            loop.call_soon_threadsafe(deliver, answer, problem)
        except RuntimeError:  # the event loop is closed
            return

    threading.Thread(target=run_call, name=THREAD_NAME, daemon=True).start()
    return await future


def run_with_timeout(call: Callable[[], T], seconds: float | None) -> T:
    """Make a blocking call, and return what it returns; `TimeoutError` if it takes too long."""
    if seconds is None:
        return call()
    ended: list[tuple[list[T], BaseException | None]] = []
    thread = threading.Thread(
        target=lambda: ended.append(result_or_error(call)), name=THREAD_NAME, daemon=True
    )
    thread.start()
    thread.join(seconds)
    if not ended:
        raise TimeoutError
    answer, problem = ended[0]
    if problem is not None:
        raise problem
    return answer[0]


def result_or_error(call: Callable[[], T]) -> tuple[list[T], BaseException | None]:
    """Return what a call returned, in a list, or what it raised."""
    try:
        return [call()], None
    except StopIteration as stopped:  # no future can carry one
        problem = RuntimeError("StopIteration was raised")
        problem.__cause__ = stopped
        return [], problem
    except Exception as failure:
        return [], failure
    except BaseException as failure:  # sys.exit() on such a thread ends nothing
        return [], RuntimeError(repr(failure))
