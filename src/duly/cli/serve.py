"""``duly serve``: a production server for one application, on uvicorn, uvloop and httptools."""

from __future__ import annotations

import json
import logging
from contextlib import closing
from typing import TYPE_CHECKING

from duly.app.loading import FORMS, VARIABLE, add_optional_argument, app_name, load_app
from duly.cli.banner import Banner
from duly.core.errors import UsageError
from duly.core.extras import needs
from duly.server.listen import base_url, open_listener, reachable_host
from duly.server.logging import configure_logging, secrets_of
from duly.server.options import (
    add_concurrency,
    add_lease,
    add_log,
    add_relay_lease,
    seconds,
    whole_number,
)
from duly.server.settings import DRAIN, ServerSettings

if TYPE_CHECKING:
    import argparse
    import socket

    from duly.app.duly import Duly

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
    add_lease(parser, "the worker of a process")
    add_relay_lease(parser, "--relay-lease", "the relay of a process")
    add_ending(parser)
    add_proxy(parser)
    add_log(parser)
    parser.add_argument("--no-access-log", action="store_true", help="do not log each request")


def add_ending(parser: argparse.ArgumentParser) -> None:
    """How it ends."""
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
    """Who stands before it."""
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
    """Import, open, listen, serve."""
    settings = settings_of(arguments)
    form = configure_logging(level=settings.level, as_json=settings.json, access=settings.access)
    if not arguments.check:
        refuse_without_server()
    app = load_app(settings.app)
    form.secrets = tuple(secrets_of(app))
    if settings.workers > 1 and not app.store.capabilities.durable:
        raise UsageError("a memory: store is one process's own: use --workers 1, or SQLite")
    if arguments.check:
        return check(app, settings)
    with open_listener(settings) as listener:
        app.store.open()
        return serve_app(app, listener, settings)


def check(app: Duly, settings: ServerSettings) -> int:
    """Say what would be served."""
    with closing(app):
        app.store.open()
        base = base_url(settings.host, settings.port) if settings.port else ""  # any that is free
        found = Banner(
            settings.app, app, base, concurrency=settings.concurrency, relay=settings.relay
        )
        print(json.dumps(found.members()) if settings.json else "\n".join(found.lines()))
    return 0


def refuse_without_server() -> None:
    """Say how to install what serves, before anything else is done."""
    with needs("serve", "uvicorn, httptools and uvloop"):
        import httptools  # noqa: F401
        import uvicorn  # noqa: F401
        import uvloop  # noqa: F401


def serve_app(app: Duly, listener: socket.socket, settings: ServerSettings) -> int:
    """Serve until the end, in this process or in several."""
    from duly.server.processes import ProcessSupervisor
    from duly.server.serve import serve

    port = listener.getsockname()[1]
    opening = Banner(
        settings.app, app, base_url(settings.host, port), settings.workers,
        base_url(reachable_host(settings.host), port), settings.concurrency, settings.relay,
    )  # fmt: skip

    def ready() -> None:
        announce(opening, settings)

    if settings.workers == 1:
        return serve(app, listener, settings, ready=ready)
    app.close()  # the workers have connections of their own
    return ProcessSupervisor(settings, listener, ready).run()


def announce(opening: Banner, settings: ServerSettings) -> None:
    """Say what is served, to whoever reads."""
    if settings.json:
        told = {"members": opening.members()}
        logging.getLogger("duly.serve").info("serving", extra=told)
    else:
        print("\n".join(opening.lines()), flush=True)


def settings_of(arguments: argparse.Namespace) -> ServerSettings:
    """What the command line says, checked."""
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
        most=arguments.limit_concurrency,
        concurrency=None if arguments.no_worker else arguments.concurrency,
        relay=not arguments.no_relay,
        lease=arguments.lease,
        relay_lease=arguments.relay_lease,
        proxies=(arguments.forwarded_allow_ips or "127.0.0.1,::1")
        if arguments.proxy_headers
        else None,
    )
