"""Flask: a source as a view, or all of them as a blueprint.

``site.register_blueprint(blueprint(app), url_prefix="/hooks")``
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

from duly.receiver import wsgi
from duly.receiver.integration import (
    METHODS,
    LengthCheckedBody,
    function_name,
    log_reply,
    require_framework,
    route_of,
    router_of,
    start_timer,
)
from duly.receiver.responses import RequestRefused

with require_framework("Flask"):
    from flask import Blueprint, Response, request

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.app.duly import Duly
    from duly.inbox.route import Route
    from duly.receiver.request import Request
    from duly.receiver.responses import Reply

__all__ = ["blueprint", "view"]


def view(app: Duly, name: str) -> Callable[..., Response]:
    """The view of one source."""
    router, route = router_of(app), route_of(app, name)

    def receive(**_: object) -> Response:
        begun = start_timer()
        try:
            asked = wsgi.request_of(request.environ)
            reply = wsgi.receive_delivery(router, route, environ_of(asked, route), asked)
        except RequestRefused as problem:
            reply = problem.reply
        log_reply(request.method, request.path, reply, begun)
        return response_of(reply, request.method)

    receive.__name__ = function_name(route)
    return receive


def blueprint(app: Duly, name: str = "duly") -> Blueprint:
    """Every source that there is at ``/name``, each with and without a slash at its end."""
    made = Blueprint(name, __name__)
    for number, path in enumerate(router_of(app).routes):
        made.add_url_rule(
            path,
            f"source-{number}",
            view(app, path[1:]),
            methods=METHODS,
            provide_automatic_options=False,
            strict_slashes=False,
        )
    return made


def environ_of(asked: Request, route: Route) -> dict[str, object]:
    """Where the body is: kept by Flask, or still to be read."""
    # What get_data() and get_json() leave behind. Asking them would read all there is.
    kept = getattr(request, "_cached_data", None)
    stream = request.stream if kept is None else BytesIO(kept)
    return {
        "REQUEST_METHOD": asked.method,
        "wsgi.input": LengthCheckedBody(stream, asked, route),
        "wsgi.input_terminated": kept is not None
        or request.environ.get("wsgi.input_terminated", False),
    }


def response_of(reply: Reply, method: str) -> Response:
    """An answer as Flask's. A connection is the server's to close."""
    body = b"" if method == "HEAD" else reply.body
    headers = [(name, value) for name, value in reply.headers if name != "connection"]
    return Response(body, reply.status, headers, content_type=reply.content_type)
