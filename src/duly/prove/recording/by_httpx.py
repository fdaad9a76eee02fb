"""httpx: its two transports, and duly's own behind ``job.http``."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import httpx

from duly.http_client.async_transport import AsyncGuardedTransport
from duly.http_client.policy import address_of
from duly.http_client.sync_transport import GuardedTransport
from duly.prove.calls import Call, select_headers
from duly.prove.steps.watching import replace_attribute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.prove.recording.recorder import Recorder


@contextmanager
def record_httpx(recorder: Recorder) -> Iterator[None]:
    """Record what clients of httpx send."""

    def answer_request(request: httpx.Request) -> httpx.Response:
        body = request.content.decode(errors="replace")
        call = Call(
            "http", request.method, str(request.url), body, select_headers(request.headers.items())
        )
        answer = recorder.take(call)
        return httpx.Response(answer.status, headers=answer.headers, content=answer.body)

    def handle_request(self: Any, request: httpx.Request) -> httpx.Response:
        check_egress(self, request)
        request.read()
        return answer_request(request)

    async def handle_async_request(self: Any, request: httpx.Request) -> httpx.Response:
        check_egress(self, request)
        await request.aread()
        return answer_request(request)

    with ExitStack() as stack:
        for each in (httpx.HTTPTransport, GuardedTransport):
            stack.enter_context(replace_attribute(each, "handle_request", handle_request))
        for one in (httpx.AsyncHTTPTransport, AsyncGuardedTransport):
            stack.enter_context(
                replace_attribute(one, "handle_async_request", handle_async_request)
            )
        yield


def check_egress(transport: Any, request: httpx.Request) -> None:
    """What the egress guard does not let out does not get as far as the recorder, either."""
    egress = getattr(transport, "_egress", None)
    if egress is not None:
        egress.check(address_of(request))
