"""What is told when a server starts: where to POST, who handles it, and a line to try it with."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import duly
from duly.app.output import without_passwords
from duly.cli.templates.rendering import sample_type
from duly.core.errors import DulyError
from duly.relay.settings import RelaySettings
from duly.server.relay_plan import relay_members, relay_text
from duly.server.worker_plan import job_handlers, plan_worker
from duly.webhooks import provider_named, provider_names
from duly.webhooks.examples import secrets_for
from duly.worker.settings import CONCURRENCY

if TYPE_CHECKING:
    from duly.app.duly import Duly
    from duly.core.json_bytes import Json
    from duly.inbox.route import Route


class Banner(NamedTuple):
    """An application about to be served."""

    name: str
    app: Duly
    base: str  # empty where the port is not known yet
    workers: int = 0  # none where it is only looked at
    local: str | None = None  # where it can be tried from this machine, if it is served
    concurrency: int | None = CONCURRENCY  # None where no worker runs with it
    relay: bool = True

    def lines(self) -> list[str]:
        """For a person."""
        told = f"duly {duly.__version__} serves {self.name} at {self.base} (Ctrl-C ends it)"
        if not self.workers:
            told = f"{self.name} can be served"
        rows = [("store", store_address(self.app))]
        if self.workers > 1:
            rows.append(("processes", str(self.workers)))
        rows += [
            (route.name, f"POST {self.base}{path}  {describe_route(route, names=not self.workers)}")
            for path, route in self.app.site.routes.items()
        ]
        rows.append(("worker", self.worker_line()))
        if self.app.registry.outgoing.is_configured or not self.relay:
            rows.append(("relay", self.relay_line()))
        if self.workers:
            rows.append(("ready?", f"GET {self.base}/readyz"))
        width = max(len(name) for name, _ in rows)
        lines = [told, *(f"  {name:<{width}}  {text}" for name, text in rows)]
        lines += [f"warning: {one}" for one in self.warnings()]
        command = self.command()
        if command is not None:
            lines += ["try it from another terminal:", f"  {command}"]
        return lines

    def worker_line(self) -> str:
        """Who runs the jobs, for a person."""
        if not job_handlers(self.app):
            return "none: nothing here runs as a job"
        plan = None if self.concurrency is None else plan_worker(self.app, self.concurrency)
        if plan is None:
            return f"none here; jobs wait for one: duly worker {self.name}"
        return ("in each process, " if self.workers > 1 else "") + plan.text()

    def relay_line(self) -> str:
        """Who sends what is staged, for a person."""
        if not self.relay:
            return f"none here; messages wait for one: duly relay {self.name}"
        return relay_text(self.app.registry.outgoing, RelaySettings())

    def members(self) -> dict[str, Json]:
        """For a program."""
        plan = None if self.concurrency is None else plan_worker(self.app, self.concurrency)
        return {
            "app": self.name,
            "url": self.base or None,
            "store": store_address(self.app),
            "workers": self.workers or None,
            "worker": None if plan is None else plan.members(),
            "relay": relay_members(self.app.registry.outgoing, RelaySettings())
            if self.relay
            else None,
            "sources": [
                {
                    "name": route.name,
                    "provider": route.source.provider.name,
                    "url": f"{self.base}{path}",
                    "inline": route.inline,
                    "handlers": [handler.name for handler in route.handlers.all()],
                }
                for path, route in self.app.site.routes.items()
            ],
            "warnings": [*self.warnings()],
        }

    def warnings(self) -> list[str]:
        """What is allowed and hardly meant."""
        routes = self.app.site.routes.values()
        if not routes:
            return ["this app has no sources, so nothing can be received: add app.source(…)"]
        return [
            f"{route.name} has no handlers, so its events are recorded as ignored and are "
            f'duplicates later: add @app.on("{route.name}")'
            for route in routes
            if not len(route.handlers)
        ]

    def command(self) -> str | None:
        """A `duly send` for a source whose handlers want what it sends, or else for any.

        Not for one with tenants: the sample names none.
        """
        routes = [
            (path, route)
            for path, route in self.app.site.routes.items()
            if route.tenant is None
            and route.source.provider.name in provider_names()
            and provider_named(route.source.provider.name) is route.source.provider
        ]
        if not routes or self.local is None:
            return None
        path, route = next((one for one in routes if handles_sample(one[1])), routes[0])
        words = [*own_command(), "send", route.source.provider.name, f"{self.local}{path}"]
        return shlex.join([*words, *secret_option(route)])


def store_address(app: Duly) -> str:
    """Where the store is, wherever this process was started."""
    url = app.store.url
    parts = urlsplit(url)
    if parts.scheme != "sqlite":
        return without_passwords(url)
    path = Path(unquote(parts.path.removeprefix("/"))).absolute()
    return f"sqlite:///{quote(str(path))}"


def describe_route(route: Route, *, names: bool) -> str:
    """Whose deliveries, and what becomes of them."""
    provider = route.source.provider
    count = len(route.handlers)
    handlers = f"{count or 'no'} {'handler' if count == 1 else 'handlers'}"
    how = "" if not count else ", inline" if route.inline else ", as jobs"
    told = f"{provider.title or provider.name}, {handlers}{how}"
    if names and count:
        told += f": {', '.join(handler.name for handler in route.handlers.all())}"
    return told


def handles_sample(route: Route) -> bool:
    """Whether somebody handles the event that `duly send` sends unless it is told another."""
    try:
        return bool(route.handlers.matching(sample_type(route.source.provider)))
    except DulyError:  # a library that signs is not installed
        return False


def secret_option(route: Route) -> list[str]:
    """The secret, if it is the one that the documentation shows, and so none at all.

    Any other is asked for by `duly send`, or taken from its environment.
    """
    example, private = secrets_for(route.source.provider)
    known = any(secret.reveal() == example for secret in route.source.secrets)
    return ["--secret", example] if known and private is None else []


def own_command() -> list[str]:
    """This program as a shell in the same directory would find it."""
    called = Path(sys.argv[0])
    if called.name != "duly":
        return [sys.executable, "-m", "duly"]
    on_path = shutil.which("duly")
    if on_path is not None and Path(on_path).resolve() == called.resolve():
        return ["duly"]
    return [str(called)]
