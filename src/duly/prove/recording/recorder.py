"""The recorder, and what it is put in front of."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from duly.prove.calls import append_call
from duly.prove.recording.answers import CannedAnswers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from duly.prove.calls import Call
    from duly.prove.recording.answers import CannedAnswer
    from duly.prove.recording.net import NetworkGuard


class Recorder:
    """Takes calls, writes them down and answers them; before it begins it only answers.

    Args:
        around: told of each call, before it is made and after.
    """

    def __init__(self, around: Callable[[str], AbstractContextManager[None]]) -> None:
        self._around = around
        self._path: Path | None = None
        self._answers = CannedAnswers()

    def begin(self, path: Path, answers: CannedAnswers) -> None:
        """From here on, write down: to the file of the calls of every process of a case."""
        self._path, self._answers = path, answers

    def take(self, call: Call) -> CannedAnswer:
        """Record a call; the process may die after it, before it has the response."""
        if self._path is not None:
            with self._around(call.summary):
                append_call(self._path, call)
        return self._answers.find(call.method, call.url)


@contextmanager
def recording(recorder: Recorder, net: NetworkGuard) -> Iterator[None]:
    """Let the recorder take every call inside the block; the net holds what goes past it."""
    from duly.prove.recording import by_http_client, by_outbox, by_smtplib, programs

    with ExitStack() as stack:
        stack.enter_context(by_http_client.record_http_client(recorder))
        stack.enter_context(by_smtplib.record_smtplib(recorder))
        stack.enter_context(by_outbox.record_outbox(recorder))
        if find_spec("httpx") is not None:
            from duly.prove.recording import by_httpx

            stack.enter_context(by_httpx.record_httpx(recorder))
        stack.enter_context(net.install())
        stack.enter_context(programs.guard_programs(net))
        yield
