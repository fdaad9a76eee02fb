"""Flask: a blueprint of every source, views of single ones, and duly beside Flask by path."""

from __future__ import annotations

from typing import Any

from flask import Flask, request
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from duly.flask import blueprint, view
from tests.receiver.integrations.sites import DEFERRED, INLINE, shop


def meddle() -> None:
    """Read the body first, in one way or another."""
    match request.headers.get("x-meddle"):
        case "json":
            assert request.get_json()
        case "body":
            assert request.get_data()
        case "post":
            assert not request.form
        case "stream":
            request.stream.read()
        case "partly":
            request.stream.read(3)
        case "uncached":
            assert request.get_data(cache=False)
        case _:
            pass


def flask_blueprint(url: str) -> Any:
    """Every source at once."""
    site = Flask("site")
    site.before_request(meddle)
    site.register_blueprint(blueprint(shop(url)), url_prefix="/hooks")
    return site


def flask_views(url: str) -> Any:
    """Each source by a rule of the user's own."""
    app, site = shop(url), Flask("site")
    site.before_request(meddle)
    for name in (DEFERRED, INLINE):
        rule = f"/hooks/{name}"
        site.add_url_rule(rule, None, view(app, name), methods=["POST"], strict_slashes=False)
    return site


def flask_dispatch(url: str) -> Any:
    """``app.wsgi`` beside Flask."""
    site = Flask("site")
    site.wsgi_app = DispatcherMiddleware(  # type: ignore[method-assign]
        site.wsgi_app, {"/hooks": shop(url).wsgi}
    )
    return site
