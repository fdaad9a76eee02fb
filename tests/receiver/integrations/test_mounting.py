"""The whole application under a path of another's, and what the adapters refuse."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import duly
from duly import django, fastapi, flask
from tests.receiver.integrations.sites import DEFERRED, SECRET
from tests.receiver.integrations.stands import KINDS, Kind, signed
from tests.receiver.integrations.test_adapters import told
from tests.stores.join.django_handles import configured

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.receiver.integrations.stands import Stand

pytestmark = pytest.mark.slow

MOUNTED = [kind for kind in KINDS if kind.site.endswith(("_mount", "_dispatch"))]
DEEP = [kind for kind in KINDS if kind.site == "starlette_mount"]


@pytest.mark.parametrize("kind", MOUNTED, ids=str)
def test_a_mounted_app_opens_by_itself_and_answers_for_its_health(kind: Kind, stand: Stand) -> None:
    assert stand.ask("GET", "readyz").json() == {"status": "ready"}
    assert stand.ask("GET", "healthz").json() == {"status": "alive"}


@pytest.mark.parametrize("kind", DEEP, ids=str)
def test_a_mount_in_a_mount_is_the_same_source(kind: Kind, stand: Stand) -> None:
    sent = signed()
    deep = stand.base.replace("/hooks/", "/deep/hooks/") + DEFERRED
    first = httpx.post(deep, content=sent.body, headers=dict(sent.headers))

    assert told(first) == (200, "accepted")
    assert told(stand.post(DEFERRED, sent)) == (200, "duplicate")


@pytest.mark.parametrize(
    ("root", "path", "found"),
    [
        ("", "/orders", 200),
        ("/hooks", "/hooks/orders", 200),
        ("/hooks/", "/hooks/orders", 200),
        ("/hooks", "/orders", 200),  # a server that leaves the mount point out of the path
        ("/ord", "/orders", 200),
        ("/orders", "/orders/orders", 200),
        ("/hooks", "/hooks/hooks/orders", 404),
        ("/hooks", "/hooksorders", 404),
        ("/hooks", "/hooks", 404),
    ],
)
async def test_the_path_below_the_mount_point_is_what_counts(
    root: str, path: str, found: int, sqlite_url: str
) -> None:
    app, sent = made(sqlite_url), signed()
    transport = httpx.ASGITransport(app=app, root_path=root)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop.test") as client:
        answer = await client.post(path, content=sent.body, headers=dict(sent.headers))
    await app.aclose()
    app.close()

    assert answer.status_code == found


def made(url: str) -> duly.Duly:
    """An application with one source."""
    app = duly.Duly(url)
    app.source(DEFERRED, provider="standard-webhooks", secret=SECRET)
    app.on(DEFERRED, name="ship")(print_nothing)
    return app


def print_nothing(event: duly.Event) -> None:
    """Handle an event by looking at it."""


@pytest.mark.parametrize("adapt", [fastapi.endpoint, django.view, flask.view])
def test_a_source_that_there_is_not_is_told_at_once(
    adapt: Callable[[Any, Any], object], sqlite_url: str
) -> None:
    app = made(sqlite_url)

    with pytest.raises(duly.errors.UsageError, match=r"no source 'order'.*there is orders"):
        adapt(app, "order")
    with pytest.raises(duly.errors.UsageError, match="takes the app first"):
        adapt(DEFERRED, app)


@pytest.mark.parametrize(
    ("library", "use", "remedy"),
    [
        (
            "starlette",
            "fastapi.endpoint",
            "Starlette must be installed for this: pip install starlette",
        ),
        ("flask", "flask.view", "Flask must be installed for this: pip install flask"),
        (
            "django",
            "django.view",
            "Django must be installed for this: pip install '.[django]' in a checkout of duly",
        ),
    ],
)
def test_a_framework_that_is_missing_is_told_as_the_command_that_brings_it(
    library: str, use: str, remedy: str
) -> None:
    script = f"import sys; sys.modules[{library!r}] = None; import duly; duly.{use}"
    command = [sys.executable, "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ran.stderr.strip().endswith(f"duly.errors.UsageError: {remedy}")


def test_the_views_of_django_ask_for_no_token_and_have_no_transaction_around_them(
    sqlite_url: str,
) -> None:
    configured()
    found: Any = django.view(made(sqlite_url), DEFERRED)

    assert found.csrf_exempt
    assert "default" in found._non_atomic_requests
