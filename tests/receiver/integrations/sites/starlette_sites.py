"""FastAPI and Starlette: endpoints of every kind, and duly mounted whole."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Body, FastAPI
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from duly.fastapi import endpoint
from duly.receiver.integration import METHODS
from tests.receiver.integrations.sites import DEFERRED, INLINE, shop


class Meddling(BaseHTTPMiddleware):
    """Reads the body first, in one way or another."""

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        match request.headers.get("x-meddle"):
            case "json":
                await request.json()
            case "body":
                await request.body()
            case "stream":
                async for _ in request.stream():
                    pass
            case _:
                pass
        return await call_next(request)


def starlette_routes(url: str) -> Any:
    """``Route`` for each source."""
    app = shop(url)
    routes = [
        Route(f"/hooks/{name}{slash}", endpoint(app, name), methods=list(METHODS))
        for name in (DEFERRED, INLINE)
        for slash in ("", "/")
    ]
    site = Starlette(routes=routes)
    site.add_middleware(Meddling)
    return site


def fastapi_routes(url: str) -> Any:
    """``add_route`` for one source, ``add_api_route`` for the other."""
    app, site = shop(url), FastAPI()
    for slash in ("", "/"):
        path = f"/hooks/{DEFERRED}{slash}"
        site.add_route(path, endpoint(app, DEFERRED), methods=list(METHODS))
        path = f"/hooks/{INLINE}{slash}"
        site.add_api_route(path, endpoint(app, INLINE), methods=list(METHODS))
    site.add_middleware(Meddling)
    return site


def fastapi_handlers(url: str) -> Any:
    """Handlers of the user's own, one of which has FastAPI parse the body as well."""
    app, site = shop(url), FastAPI()
    orders, ledger = endpoint(app, DEFERRED), endpoint(app, INLINE)

    @site.api_route(f"/hooks/{DEFERRED}", methods=list(METHODS))
    @site.api_route(f"/hooks/{DEFERRED}/", methods=list(METHODS), include_in_schema=False)
    async def receive_orders(request: Request) -> Response:
        return await orders(request)

    @site.post(f"/hooks/{INLINE}")
    @site.post(f"/hooks/{INLINE}/")
    async def receive_ledger(request: Request, parsed: Annotated[Any, Body()] = None) -> Response:
        return await ledger(request)

    site.add_middleware(Meddling)
    return site


def fastapi_mount(url: str) -> Any:
    """The whole application under a path; nobody tells it of the lifespan."""
    site = FastAPI()
    site.mount("/hooks", shop(url))
    site.add_middleware(Meddling)
    return site


def starlette_mount(url: str) -> Any:
    """The same in Starlette, two mounts deep, with a lifespan that closes it."""
    app = shop(url)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await app.aclose()

    inner = Starlette(routes=[Mount("/hooks", app)])
    site = Starlette(routes=[Mount("/hooks", app), Mount("/deep", inner)], lifespan=lifespan)
    site.add_middleware(Meddling)
    return site
