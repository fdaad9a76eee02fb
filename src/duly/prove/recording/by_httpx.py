"""httpx: its two transports, and duly's own behind ``job.http``."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import httpx

from duly.http_client.async_transport import AsyncGuarded
from duly.http_client.policy import address_of
from duly.http_client.sync_transport import Guarded
from duly.prove.calls import Call, kept
from duly.prove.steps.watching import replaced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.prove.recording.recorder import Recorder


@contextmanager
def recorded(recorder: Recorder) -> Iterator[None]:
    """Record what clients of httpx send."""

    def answered(request: httpx.Request) -> httpx.Response:
        body = request.content.decode(errors="replace")
        call = Call("http", request.method, str(request.url), body, kept(request.headers.items()))
        answer = recorder.take(call)
        return httpx.Response(answer.status, headers=answer.headers, content=answer.body)

    def blocking(self: Any, request: httpx.Request) -> httpx.Response:
        guarded(self, request)
        request.read()
        return answered(request)

    async def awaited(self: Any, request: httpx.Request) -> httpx.Response:
        guarded(self, request)
        await request.aread()
        return answered(request)

    with ExitStack() as stack:
        for each in (httpx.HTTPTransport, Guarded):
            stack.enter_context(replaced(each, "handle_request", blocking))
        for one in (httpx.AsyncHTTPTransport, AsyncGuarded):
            stack.enter_context(replaced(one, "handle_async_request", awaited))
        yield


def guarded(transport: Any, request: httpx.Request) -> None:
    """What the egress guard does not let out does not get as far as the recorder, either."""
    egress = getattr(transport, "_egress", None)
    if egress is not None:
        egress.check(address_of(request))
