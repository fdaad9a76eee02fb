"""``duly serve``: serve one application in production, on uvicorn, uvloop and httptools."""

from __future__ import annotations

import json
import logging
import shlex
import shutil
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from duly.app.loading import FORMS, VARIABLE, add_optional_argument, app_name
from duly.cli.options import (
    add_concurrency,
    add_log_options,
    add_relay_lease,
    add_worker_lease,
    seconds,
    whole_number,
)
from duly.cli.templates.rendering import sample_type
from duly.core.errors import DulyError, UsageError
from duly.core.extras import needs
from duly.server.banner import Banner
from duly.server.listener import base_url, open_listener, reachable_host
from duly.server.logging import load_app_and_log
from duly.server.settings import DRAIN, ServerSettings
from duly.webhooks import provider_named, provider_names
from duly.webhooks.examples import secrets_for

if TYPE_CHECKING:
    import argparse
    import socket

    from duly.app.duly import Duly
    from duly.inbox.route import Route

EXAMPLES = f"""\
examples:
  duly serve shop:app                        the Duly called app in shop.py, on port 8000
  duly serve examples/shop/app.py:app --port 0
  duly serve shop:app --check                only import it, open its database and list its sources
  duly serve shop:app --host 0.0.0.0 --workers 4 --log-json --linger 5
  duly serve shop:app --no-worker            only receive; `duly worker shop:app` runs the jobs

{VARIABLE} names the application where the command line does not. GET /healthz is answered as long
as the process lives, GET /readyz as long as it would take a delivery.
Each process also runs a worker where the application has jobs, and a relay that sends what is
staged in the outbox, each on a thread of its own.
SIGTERM and SIGINT (Ctrl-C) drain: /readyz says 503, nothing more is accepted, what is being
received is finished and answered, jobs that run are finished or given back, and the exit code is 0.
A second signal gives back the jobs that run and ends it, a third ends it at once."""

MOST_WORKERS, MOST_CONNECTIONS = 512, 1_000_000


def add(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add_optional_argument(parser, "app", f"what to serve: {FORMS} (or {VARIABLE})")
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (default 127.0.0.1)")
    parser.add_argument(
        "--port",
        type=whole_number("a port", 0, 65535),
        default=8000,
        help="default 8000; 0 takes any that is free, and tells which",
    )
    parser.add_argument(
        "--workers",
        type=whole_number("a number of processes", 1, MOST_WORKERS),
        default=1,
        metavar="N",
        help="how many processes serve (default 1)",
    )
    parser.add_argument(
        "--limit-concurrency",
        type=whole_number("a number of connections", 1, MOST_CONNECTIONS),
        metavar="N",
        help="answer 503 beyond so many connections of one process",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="only import the app, open its store and list its sources",
    )
    parser.add_argument(
        "--no-worker", action="store_true", help="run no jobs here: `duly worker` does"
    )
    parser.add_argument(
        "--no-relay", action="store_true", help="send no messages here: `duly relay` does"
    )
    add_concurrency(parser)
    add_worker_lease(parser, "the worker of a process")
    add_relay_lease(parser, "--relay-lease", "the relay of a process")
    add_ending(parser)
    add_proxy(parser)
    add_log_options(parser)
    parser.add_argument("--no-access-log", action="store_true", help="do not log each request")


def add_ending(parser: argparse.ArgumentParser) -> None:
    """Declare how the server drains."""
    parser.add_argument(
        "--drain",
        type=seconds,
        default=DRAIN,
        metavar="SECONDS",
        help=f"how long what was begun may take to finish at the end (default {DRAIN:g})",
    )
    parser.add_argument(
        "--linger",
        type=seconds,
        default=0.0,
        metavar="SECONDS",
        help="how long to go on accepting, while /readyz says 503 already (default 0)",
    )


def add_proxy(parser: argparse.ArgumentParser) -> None:
    """Declare which proxies are believed."""
    parser.add_argument(
        "--proxy-headers",
        action="store_true",
        help="believe X-Forwarded-For and X-Forwarded-Proto of a proxy",
    )
    parser.add_argument(
        "--forwarded-allow-ips",
        metavar="ADDRESSES",
        help="the proxies to believe, with commas (default 127.0.0.1,::1)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Load the application, listen, open its store, and serve until a signal."""
    settings = settings_from(arguments)
    if not arguments.check:
        refuse_without_server()
    app = load_app_and_log(
        settings.app, level=settings.level, as_json=settings.json, access=settings.access
    )
    if settings.workers > 1 and not app.store.capabilities.durable:
        raise UsageError("a memory: store belongs to one process: use --workers 1, or SQLite")
    if arguments.check:
        return check(app, settings)
    with open_listener(settings) as listener:
        app.store.open()
        return serve_app(app, listener, settings)


def check(app: Duly, settings: ServerSettings) -> int:
    """Print what would be served."""
    with closing(app):
        app.store.open()
        base = base_url(settings.host, settings.port) if settings.port else ""  # any that is free
        banner = Banner(
            settings.app, app, base, concurrency=settings.concurrency, relay=settings.relay
        )
        print(json.dumps(banner.members()) if settings.json else "\n".join(banner.lines()))
    return 0


def refuse_without_server() -> None:
    """Say how to install the server, before anything else is done."""
    with needs("serve", "uvicorn, httptools and uvloop"):
        import httptools  # noqa: F401
        import uvicorn  # noqa: F401
        import uvloop  # noqa: F401


def serve_app(app: Duly, listener: socket.socket, settings: ServerSettings) -> int:
    """Serve until the end, in this process or in several."""
    from duly.server.processes import ProcessSupervisor
    from duly.server.serve import serve

    port = listener.getsockname()[1]
    banner = Banner(
        settings.app, app, base_url(settings.host, port), settings.workers,
        deliver_command(app, base_url(reachable_host(settings.host), port)),
        settings.concurrency, settings.relay,
    )  # fmt: skip

    def ready() -> None:
        announce(banner, settings)

    if settings.workers == 1:
        return serve(app, listener, settings, ready=ready)
    app.close()  # the workers have connections of their own
    return ProcessSupervisor(settings, listener, ready).run()


def announce(banner: Banner, settings: ServerSettings) -> None:
    """Log or print what is served."""
    if settings.json:
        extra = {"members": banner.members()}
        logging.getLogger("duly.serve").info("serving", extra=extra)
    else:
        print("\n".join(banner.lines()), flush=True)


def deliver_command(app: Duly, base: str) -> str | None:
    """Return a `duly deliver` for a source that handles its sample event, or else for any source.

    None for a source with tenants: the sample names none.
    """
    routes = [
        (path, route)
        for path, route in app.router.routes.items()
        if route.tenant is None
        and route.source.provider.name in provider_names()
        and provider_named(route.source.provider.name) is route.source.provider
    ]
    if not routes:
        return None
    path, route = next((one for one in routes if handles_sample(one[1])), routes[0])
    words = [*own_command(), "deliver", route.source.provider.name, f"{base}{path}"]
    return shlex.join([*words, *secret_option(route)])


def handles_sample(route: Route) -> bool:
    """Return True if a handler takes the event that `duly deliver` sends by default."""
    try:
        return bool(route.handlers.matching(sample_type(route.source.provider)))
    except DulyError:  # a library that signs is not installed
        return False


def secret_option(route: Route) -> list[str]:
    """Return the secret if it is the documentation's example, and so none at all.

    `duly deliver` asks for any other, or takes it from its environment.
    """
    example, private = secrets_for(route.source.provider)
    known = any(secret.reveal() == example for secret in route.source.secrets)
    return ["--secret", example] if known and private is None else []


def own_command() -> list[str]:
    """Return this program as a shell in the same directory would find it."""
    called = Path(sys.argv[0])
    if called.name != "duly":
        return [sys.executable, "-m", "duly"]
    on_path = shutil.which("duly")
    if on_path is not None and Path(on_path).resolve() == called.resolve():
        return ["duly"]
    return [str(called)]


def settings_from(arguments: argparse.Namespace) -> ServerSettings:
    """Check the command line and return the settings of the server."""
    if arguments.forwarded_allow_ips is not None and not arguments.proxy_headers:
        raise UsageError("--forwarded-allow-ips is for --proxy-headers: give both, or neither")
    return ServerSettings(
        app=app_name(arguments.app),
        host=arguments.host,
        port=arguments.port,
        workers=arguments.workers,
        level=arguments.log_level,
        access=not arguments.no_access_log,
        json=arguments.log_json,
        drain=arguments.drain,
        linger=arguments.linger,
        max_connections=arguments.limit_concurrency,
        concurrency=None if arguments.no_worker else arguments.concurrency,
        relay=not arguments.no_relay,
        lease=arguments.lease,
        relay_lease=arguments.relay_lease,
        proxies=(arguments.forwarded_allow_ips or "127.0.0.1,::1")
        if arguments.proxy_headers
        else None,
    )
