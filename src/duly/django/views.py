"""Django: a source as a view, or all of them as URL patterns.

``path("hooks/", include(urls(app)))``
"""

from __future__ import annotations

import re
from io import BytesIO
from typing import TYPE_CHECKING, Any

from duly.core.extras import needs
from duly.receiver import asgi, wsgi
from duly.receiver.integration import (
    LengthCheckedBody,
    function_name,
    log_reply,
    route_of,
    router_of,
    start_timer,
)
from duly.receiver.request import body_taken
from duly.receiver.responses import RequestRefused

with needs("django", "Django"):
    from django.db import connections, transaction
    from django.http import HttpRequest, HttpResponse, UnreadablePostError
    from django.http.request import RawPostDataException
    from django.urls import URLPattern, re_path
    from django.views.decorators.csrf import csrf_exempt

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.app.duly import Duly
    from duly.inbox.route import Route
    from duly.receiver.request import Request
    from duly.receiver.responses import Reply

    View = Callable[..., HttpResponse]


def view(app: Duly, name: str) -> View:
    """The view of one source: it asks for no CSRF token and runs in no transaction of Django's.

    It blocks; under ASGI Django runs it on a thread by itself.
    """
    router, route = router_of(app), route_of(app, name)

    def receive(request: HttpRequest, *_: object, **__: object) -> HttpResponse:
        begun, method = (
            start_timer(),
            request.method or "",
        )  # a request that was made without a server
        begin = app.process.begin
        if begin is not None:
            begin.refuse_moved()
        try:
            asked = request_of(request)
            reply = wsgi.receive_delivery(router, route, environ_of(request, asked, route), asked)
        except UnreadablePostError:
            return HttpResponse(status=400)  # not sent: the client has hung up
        except RequestRefused as problem:
            reply = problem.reply
        log_reply(method, request.path, reply, begun)
        return response_of(reply, method)

    receive.__name__ = function_name(route)
    for alias in connections:  # with ATOMIC_REQUESTS an answer would be made before the commit
        transaction.non_atomic_requests(using=alias)(receive)
    exempt: View = csrf_exempt(receive)
    return exempt


def urls(app: Duly) -> list[URLPattern]:
    """The patterns of every source that there is, each with and without a slash at its end."""
    names = [path[1:] for path in router_of(app).routes]
    return [
        re_path(rf"^{re.escape(name)}/?$", view(app, name), name=f"duly-{name}") for name in names
    ]


def request_of(request: HttpRequest) -> Request:
    """The request from the environment of the server: Django joins repeated headers."""
    scope = getattr(request, "scope", None)
    return wsgi.request_of(request.META) if scope is None else asgi.request_of(scope)


def environ_of(request: HttpRequest, asked: Request, route: Route) -> dict[str, Any]:
    """Where the body is: kept by Django, or still to be read."""
    environ = {"REQUEST_METHOD": asked.method, "wsgi.input_terminated": True}
    # Django has no public sign that the stream was read from; `body` would read all there is.
    if getattr(request, "_read_started", False):
        try:
            return {**environ, "wsgi.input": LengthCheckedBody(BytesIO(request.body), asked, route)}
        except RawPostDataException:
            raise body_taken(route.name) from None
    if asked.declared is None and "wsgi.input" in request.META:
        # In Django's eyes there is no body without a length; the server may know better.
        terminated = request.META.get("wsgi.input_terminated", False)
        source = request.META["wsgi.input"]
        return {**environ, "wsgi.input": source, "wsgi.input_terminated": terminated}
    return {**environ, "wsgi.input": LengthCheckedBody(request, asked, route)}


def response_of(reply: Reply, method: str) -> HttpResponse:
    """An answer as Django's. A connection is the server's to close."""
    body = b"" if method == "HEAD" else reply.body
    headers = {name: value for name, value in reply.headers if name != "connection"}
    return HttpResponse(body, reply.content_type, reply.status, headers=headers)
