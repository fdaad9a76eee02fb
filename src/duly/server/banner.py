"""The banner of a server: where to POST, which handlers take it, who runs jobs, who sends."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import duly
from duly.app.output import without_passwords
from duly.relay.settings import RelaySettings
from duly.server.services import job_handlers, plan_worker, relay_members, relay_text
from duly.worker.settings import CONCURRENCY

if TYPE_CHECKING:
    from duly.app.duly import Duly
    from duly.core.json_bytes import Json
    from duly.inbox.route import Route


class Banner(NamedTuple):
    """What is printed or logged when an application is served, or checked."""

    name: str
    app: Duly
    base: str  # empty where the port is not known yet
    processes: int = 0  # 0 for a check, which serves nothing
    try_it: str | None = None  # a command that delivers an event from this machine
    concurrency: int | None = CONCURRENCY  # None where no worker runs with the server
    relay: bool = True

    def lines(self) -> list[str]:
        """Return the banner for people."""
        title = f"duly {duly.__version__} serves {self.name} at {self.base} (Ctrl-C ends it)"
        if not self.processes:
            title = f"{self.name} can be served"
        rows = [("store", store_address(self.app))]
        if self.processes > 1:
            rows.append(("processes", str(self.processes)))
        rows += [
            (
                route.name,
                f"POST {self.base}{path}  {describe_route(route, names=not self.processes)}",
            )
            for path, route in self.app.router.routes.items()
        ]
        rows.append(("worker", self.worker_line()))
        if self.app.registries.outbox.is_configured or not self.relay:
            rows.append(("relay", self.relay_line()))
        if self.processes:
            rows.append(("ready?", f"GET {self.base}/readyz"))
        width = max(len(name) for name, _ in rows)
        lines = [title, *(f"  {name:<{width}}  {text}" for name, text in rows)]
        lines += [f"warning: {one}" for one in self.warnings()]
        if self.try_it is not None:
            lines += ["try it from another terminal:", f"  {self.try_it}"]
        return lines

    def worker_line(self) -> str:
        """Return which worker runs the jobs."""
        if not job_handlers(self.app):
            return "none: nothing here runs as a job"
        plan = None if self.concurrency is None else plan_worker(self.app, self.concurrency)
        if plan is None:
            return f"none here; jobs wait for one: duly worker {self.name}"
        return ("in each process, " if self.processes > 1 else "") + plan.text()

    def relay_line(self) -> str:
        """Return which relay sends the messages."""
        if not self.relay:
            return f"none here; messages wait for one: duly relay {self.name}"
        return relay_text(self.app.registries.outbox, RelaySettings())

    def members(self) -> dict[str, Json]:
        """Return the banner for programs."""
        plan = None if self.concurrency is None else plan_worker(self.app, self.concurrency)
        return {
            "app": self.name,
            "url": self.base or None,
            "store": store_address(self.app),
            "workers": self.processes or None,
            "worker": None if plan is None else plan.members(),
            "relay": relay_members(self.app.registries.outbox, RelaySettings())
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
                for path, route in self.app.router.routes.items()
            ],
            "warnings": [*self.warnings()],
        }

    def warnings(self) -> list[str]:
        """Return what is allowed and probably not meant."""
        routes = self.app.router.routes.values()
        if not routes:
            return ["this app has no sources, so nothing can be received: add app.source(…)"]
        return [
            f"{route.name} has no handlers, so its events are recorded as ignored and are "
            f'duplicates later: add @app.on("{route.name}")'
            for route in routes
            if not len(route.handlers)
        ]


def store_address(app: Duly) -> str:
    """Return the URL of the store without its password; a SQLite path in full."""
    url = app.store.url
    parts = urlsplit(url)
    if parts.scheme != "sqlite":
        return without_passwords(url)
    path = Path(unquote(parts.path.removeprefix("/"))).absolute()
    return f"sqlite:///{quote(str(path))}"


def describe_route(route: Route, *, names: bool) -> str:
    """Return whose deliveries a source takes, and how they are handled."""
    provider = route.source.provider
    count = len(route.handlers)
    handlers = f"{count or 'no'} {'handler' if count == 1 else 'handlers'}"
    how = "" if not count else ", inline" if route.inline else ", as jobs"
    text = f"{provider.title or provider.name}, {handlers}{how}"
    if names and count:
        text += f": {', '.join(handler.name for handler in route.handlers.all())}"
    return text
