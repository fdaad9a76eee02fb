"""A site under its server, from its start to its end, and how deliveries get there."""

import ssl
import subprocess
import sys
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

import duly
from tests.receiver.integrations.sites import SECRET
from tests.stores.join.places import Place
from tests.support.processes.forked import Forked
from tests.support.processes.leading import ROOT, given, until

# Read once: httpx would read them for every request, which takes longer than the request.
CERTIFICATES = ssl.create_default_context()
# What middleware does to a body: kept where the framework has the raw bytes still, taken where not.
STARLETTE = (("json", "body"), ("stream",))
DJANGO = (("body", "post", "body, read"), ("read", "partly"))
FLASK = (("json", "body", "post"), ("stream", "partly", "uncached"))


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to have duly in a framework, on one store."""

    module: str
    site: str
    server: str
    meddling: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    store: str = "sqlite"

    @property
    def wide(self) -> bool:
        """Whether it is left to `make test-wide`."""
        return str(self) not in SHOWN

    def __str__(self) -> str:
        return f"{self.site}-{self.store}"


# Each framework, sync and async, and each store.
SHOWN = {
    "fastapi_routes-sqlite",
    "starlette_mount-sqlite",
    "django_wsgi-sqlite",
    "flask_blueprint-sqlite",
    "django_asgi-postgres",
}
STARLETTE_SITES = (
    "starlette_routes",
    "fastapi_routes",
    "fastapi_handlers",
    "fastapi_mount",
    "starlette_mount",
)
KINDS = [
    *(Kind("starlette_sites", site, "uvicorn", STARLETTE) for site in STARLETTE_SITES),
    Kind("django_sites", "django_wsgi", "waitress", DJANGO),
    Kind("django_sites", "django_asgi", "uvicorn", DJANGO),
    Kind("django_sites", "django_async_views", "uvicorn", DJANGO),
    Kind("django_sites", "django_dispatch", "uvicorn"),
    Kind("flask_sites", "flask_blueprint", "waitress", FLASK),
    Kind("flask_sites", "flask_views", "waitress", FLASK),
    Kind("flask_sites", "flask_dispatch", "waitress"),
    Kind("starlette_sites", "fastapi_routes", "uvicorn", STARLETTE, "postgres"),
    Kind("starlette_sites", "fastapi_mount", "uvicorn", STARLETTE, "postgres"),
    Kind("django_sites", "django_wsgi", "waitress", DJANGO, "postgres"),
    Kind("django_sites", "django_asgi", "uvicorn", DJANGO, "postgres"),
    Kind("flask_sites", "flask_blueprint", "waitress", FLASK, "postgres"),
]


@dataclass
class Stand:
    """A running server."""

    kind: Kind
    place: Place
    log: Path
    base: str = ""
    process: subprocess.Popen[bytes] = field(init=False)

    def start(self) -> None:
        """Start it; it listens when this returns."""
        with self.log.open("wb") as log:
            kind = self.kind
            self.process = Forked(
                [
                    *(sys.executable, "-m", "tests.receiver.integrations.serving"),
                    *(kind.module, kind.site, kind.server, self.place.url),
                ],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        port = given(self.process.stdout).readline().decode().strip()
        if not port:
            self.stop()
            raise AssertionError(self.log.read_text())
        self.base = f"http://127.0.0.1:{port}/hooks/"

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(30)
        given(self.process.stdout).close()

    def post(
        self, source: str, sent: duly.types.Signed, content: Any = None, meddle: str = ""
    ) -> Any:
        """Deliver, and return the answer; redirects are not followed."""
        return httpx.post(
            self.base + source,
            content=sent.body if content is None else content,
            headers={**sent.headers, "x-meddle": meddle},
            verify=CERTIFICATES,
        )

    def ask(self, method: str, path: str) -> httpx.Response:
        """Any other request."""
        return httpx.request(method, self.base + path, verify=CERTIFICATES)

    def said(self, text: str) -> bool:
        """Whether the server's log says so, by and by."""
        return until(lambda: True if text in self.log.read_text() else None)

    def events(self, key: str) -> list[bytes]:
        """The bodies of an event that are committed."""
        found = self.place.rows(f"SELECT body FROM duly_events WHERE event_id = '{key}'")
        return [bytes(body) for (body,) in found]

    def jobs(self, key: str) -> list[str]:
        """The jobs of an event that are committed."""
        found = self.place.rows(
            "SELECT name FROM duly_jobs WHERE event IN "
            f"(SELECT id FROM duly_events WHERE event_id = '{key}')"
        )
        return [name for (name,) in found]


def signed(body: bytes = b'{"type": "order.paid",  "total": 1.0, "name": "\xc3\xa9"}') -> Any:
    """A genuine delivery of a new event; its JSON is not as Python would write it."""
    return duly.sign("standard-webhooks", body, SECRET, id=f"msg_{uuid.uuid4().hex}")


def id_of(sent: duly.types.Signed) -> str:
    """The id that a delivery carries."""
    return dict(sent.headers)["webhook-id"]


def chunked(body: bytes) -> Iterable[bytes]:
    """The body in pieces, so that it has no declared length."""
    yield body[:10]
    yield body[10:]
