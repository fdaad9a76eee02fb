"""Sources with ways of their own: those that answer without a body, or hold a public key."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

import duly
from duly import fastapi
from duly.prove.asks import EventAsk
from duly.prove.assertion import assert_effectively_once
from duly.prove.case_runner import ProofRequest
from duly.prove.loader import Subject
from duly.prove.prover import ProofOptions, prove_handler
from duly.webhooks.examples import ED25519_PRIVATE, ED25519_PUBLIC
from tests.prove.test_assert import EVENT, SECRET, right, shop

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request

pytestmark = pytest.mark.slow

ENDED = duly.Secret(SECRET, not_after=datetime(2020, 1, 1, tzinfo=UTC))
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

    verdict = prove_handler(
        lambda: Subject(app, None),
        ProofRequest((ask,), only="twice"),
        ProofOptions(),
        lambda _: None,
    )

    app.close()
    assert verdict.finding is None


def site_that_says(app: duly.Duly, *, handing_over: bool) -> Starlette:
    receive = fastapi.endpoint(app, "shop")

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
    with pytest.raises(duly.errors.UsageError, match="nothing to compare"):
        assert_effectively_once(app, EVENT, through=site, path="/pay", only="twice")
    app.close()


def test_a_source_with_a_public_key_is_lent_one_whose_private_half_is_known(tmp_path: Path) -> None:
    app = with_discord(tmp_path / "shop.db")
    assert_effectively_once(app, INSTALLED, only="twice")
    assert_effectively_once(app, INSTALLED, source="discord", only="twice")
    assert (
        len(app.router.route_named("discord").source.secrets) == 1
    )  # nothing of it is left in this process
    app.close()


def test_a_test_can_sign_with_a_key_of_its_own(tmp_path: Path) -> None:
    app = with_discord(tmp_path / "shop.db")
    assert_effectively_once(app, INSTALLED, secret=ED25519_PRIVATE, only="twice")
    app.close()


def test_a_key_of_another_form_is_asked_for_where_it_can_be_given(tmp_path: Path) -> None:
    app = duly.Duly(f"sqlite:///{tmp_path / 'shop.db'}")
    app.source("shop", provider="standard-webhooks", secret=ENDED)
    app.on("shop", name="handler")(right)

    with pytest.raises(duly.errors.UsageError) as refused:
        assert_effectively_once(app, EVENT, source="shop")

    app.close()
    assert str(refused.value).startswith("source shop holds")
    assert "--secret-from VARIABLE or as secret= in a test" in str(refused.value)
    assert "it said" not in str(refused.value)
