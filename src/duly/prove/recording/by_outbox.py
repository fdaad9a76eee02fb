"""Messages of duly's outbox: the relay runs as usual, and sends them to the recorder."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from duly.outbox.message import message_of
from duly.outbox.outcome import Answered
from duly.prove.calls import Call, select_headers
from duly.prove.steps.watching import replace_attribute
from duly.relay.sender import Sender

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.outbox.lease import LeasedMessage
    from duly.prove.recording.recorder import Recorder


@contextmanager
def record_outbox(recorder: Recorder) -> Iterator[None]:
    """Record what the relay sends, by HTTP or through a transport of the user's."""

    async def send(_: Any, leased: LeasedMessage, *__: float) -> None:
        message = message_of(leased)
        body = (message.body or b"").decode(errors="replace")
        headers = select_headers(message.headers.items())
        answer = recorder.take(
            Call("message", message.method, message.url, body, headers, message.id)
        )
        if answer.status >= 300:
            raise Answered(answer.status, answer.headers.get("retry-after"), None)

    def prepare(_: Any) -> None:
        """There is nothing to load."""

    with replace_attribute(Sender, "send", send), replace_attribute(Sender, "prepare", prepare):
        yield
