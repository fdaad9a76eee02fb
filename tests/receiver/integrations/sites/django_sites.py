"""Django: URL patterns under WSGI and ASGI, an async view, and duly beside Django by path."""

import sys
from types import ModuleType
from typing import Any

import django
from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.db import transaction
from django.http import HttpRequest
from django.urls import include, path, re_path
from django.views.decorators.csrf import csrf_exempt

import duly
from duly.django import urls, view
from tests.receiver.integrations.sites import DEFERRED, INLINE, shop
from tests.stores.join.django_handles import database


def meddling(get_response: Any) -> Any:
    """A middleware that reads the body first, in one way or another."""

    def middleware(request: HttpRequest) -> Any:
        match request.headers.get("x-meddle"):
            case "body":
                assert request.body
            case "post":
                assert not request.POST
            case "body, read":
                assert request.body == request.read()
            case "read":
                request.read()
            case "partly":
                request.read(3)
            case _:
                pass
        return get_response(request)

    return middleware


def configure(url: str) -> duly.Duly:
    """Django with CSRF protection, slashes appended and a transaction for each request."""
    settings.configure(
        DATABASES={"default": {**database(url), "ATOMIC_REQUESTS": True}},
        ROOT_URLCONF="site_urls",
        ALLOWED_HOSTS=["*"],
        USE_TZ=True,
        MIDDLEWARE=[
            "django.middleware.common.CommonMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "tests.receiver.integrations.sites.django_sites.meddling",
        ],
    )
    django.setup()
    return shop(None, duly.django.database("default"))


def routed(patterns: list[Any]) -> None:
    """Make the patterns the root of the site."""
    module = ModuleType("site_urls")
    module.urlpatterns = patterns  # type: ignore[attr-defined]
    sys.modules["site_urls"] = module


def django_wsgi(url: str) -> Any:
    """Every source through ``urls``, under WSGI."""
    routed([path("hooks/", include(urls(configure(url))))])
    return get_wsgi_application()


def django_asgi(url: str) -> Any:
    """The same under ASGI, where Django runs the views on a thread."""
    routed([path("hooks/", include(urls(configure(url))))])
    return get_asgi_application()


def django_async_views(url: str) -> Any:
    """Async views of the user's own."""
    app = configure(url)
    patterns = []
    for name in (DEFERRED, INLINE):
        hook = sync_to_async(view(app, name))

        async def receive(request: HttpRequest, hook: Any = hook) -> Any:
            return await hook(request)

        patterns.append(
            re_path(rf"^hooks/{name}/?$", csrf_exempt(transaction.non_atomic_requests(receive)))
        )
    routed(patterns)
    return get_asgi_application()


def django_dispatch(url: str) -> Any:
    """duly beside Django, by path."""
    app = configure(url)
    routed([])
    rest = get_asgi_application()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/hooks/"):
            await app({**scope, "root_path": "/hooks"}, receive, send)
        else:
            await rest(scope, receive, send)

    return application
