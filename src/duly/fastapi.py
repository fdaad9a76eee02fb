"""FastAPI and Starlette: a source as an endpoint of your own router.

``Route("/stripe", endpoint(app, "stripe"), methods=["POST"])``
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.receiver.asgi import RequestAborted, receive_delivery
from duly.receiver.integration import (
    function_name,
    log_reply,
    require_framework,
    route_of,
    router_of,
    start_timer,
)
from duly.receiver.request import body_taken
from duly.receiver.responses import RequestRefused

with require_framework("Starlette"):
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, MutableMapping
    from typing import Any

    from duly.app.duly import Duly
    from duly.inbox.route import Route
    from duly.receiver.responses import Reply

__all__ = ["endpoint"]


def endpoint(app: Duly, name: str) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """Receive one source's deliveries; a handler of yours may await and return its answer, too."""
    router, route = router_of(app), route_of(app, name)

    async def receive(request: Request) -> Response:
        begun = start_timer()
        try:
            reply = await receive_delivery(
                router, route, request.scope, Body(request, route).receive
            )
        except RequestAborted:
            return Response(status_code=400)  # not sent: the client has hung up
        except RequestRefused as problem:
            reply = problem.reply
        log_reply(request.method, request.url.path, reply, begun)
        return response_of(reply, request.method)

    receive.__name__ = function_name(route)
    return receive


class Body:
    """The body through Starlette's own stream, which yields kept bytes again and knows if not."""

    def __init__(self, request: Request, route: Route) -> None:
        self._chunks = request.stream()
        self._route = route

    async def receive(self) -> MutableMapping[str, Any]:
        """The next piece as a message of ASGI."""
        try:
            chunk = await anext(self._chunks, b"")
        except ClientDisconnect:
            return {"type": "http.disconnect"}
        except RuntimeError:  # Starlette's "Stream consumed"
            raise body_taken(self._route.name) from None
        return {"type": "http.request", "body": chunk, "more_body": bool(chunk)}


def response_of(reply: Reply, method: str) -> Response:
    """An answer as Starlette's."""
    headers = dict(reply.pairs())
    return Response(b"" if method == "HEAD" else reply.body, reply.status, headers)
