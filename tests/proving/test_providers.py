"""Sources with ways of their own: those that answer without a body, or hold a public key."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

import duly
from duly.edge.adapters import starlette
from duly.tools.proving.asks import EventAsk
from duly.tools.proving.asserting import assert_effectively_once
from duly.tools.proving.playing import Wishes
from duly.tools.proving.trial import Manner, tried
from duly.tools.proving.where import Subject
from duly.tools.shelf.examples import ED25519_PRIVATE, ED25519_PUBLIC
from tests.proving.test_assert import EVENT, right, shop

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request

INSTALLED = b"""{"version": 1, "application_id": "1", "type": 1, "event": {
    "type": "APPLICATION_AUTHORIZED", "timestamp": "2099-11-17T00:00:00.000000Z",
    "data": {"user": {"id": "2"}}}}"""


def with_discord(path: Path) -> duly.Duly:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE orders (id TEXT)")
    app = duly.Duly(f"sqlite:///{path}")
    app.source("discord", secret=ED25519_PUBLIC)
    app.on("discord", name="handler")(right)
    return app


def test_a_source_that_answers_without_a_body_can_be_proved(tmp_path: Path) -> None:
    app = with_discord(tmp_path / "shop.db")
    ask = EventAsk("discord", INSTALLED, secret=ED25519_PRIVATE)

    verdict = tried(
        lambda: Subject(app, None), Wishes((ask,), only="twice"), Manner(), lambda _: None
    )

    app.close()
    assert verdict.finding is None


def site_that_says(app: duly.Duly, *, handing_over: bool) -> Starlette:
    receive = starlette.endpoint(app, "shop")

    async def pay(request: Request) -> Response:
        if handing_over:
            await receive(request)
        return Response("thanks")

    return Starlette(routes=[Route("/pay", pay, methods=["POST"])])


def test_a_site_that_answers_in_its_own_words_can_be_proved(tmp_path: Path) -> None:
    app = shop(tmp_path / "shop.db", right)
    site = site_that_says(app, handing_over=True)
    assert_effectively_once(app, EVENT, through=site, path="/pay", only="twice")
    app.close()


def test_a_site_that_keeps_the_event_to_itself_is_refused(tmp_path: Path) -> None:
    app = shop(tmp_path / "shop.db", right)
    site = site_that_says(app, handing_over=False)
    with pytest.raises(duly.Misuse, match="nothing to compare"):
        assert_effectively_once(app, EVENT, through=site, path="/pay", only="twice")
    app.close()
