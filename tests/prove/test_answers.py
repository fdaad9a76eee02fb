"""What deliveries are answered: a sender comes again with whatever was not answered 2xx."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from duly import fastapi
from duly.prove.assertion import assert_effectively_once
from tests.prove.test_assert import EVENT, SECRET, failure, right, shop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from starlette.requests import Request

    import duly

pytestmark = pytest.mark.slow

MADE, SET = {"type": "made", "order": "o-1"}, {"type": "set", "order": "o-1"}


def refusing(app: duly.Duly) -> Starlette:
    receive = fastapi.endpoint(app, "shop")

    async def pay(request: Request) -> Any:
        answer = await receive(request)
        if b"duplicate" in bytes(answer.body):
            return Response('{"error": "known"}', 409)
        return answer

    return Starlette(routes=[Route("/pay", pay, methods=["POST"])])


def inline(path: Path, handler: Callable[..., Any]) -> duly.Duly:
    app = shop(path, lambda: None)
    app.source("till", provider="standard-webhooks", secret=SECRET, inline=True)
    app.on("till", "*", name="served")(handler)
    return app


@pytest.mark.parametrize("case", ["twice", "at-once"])
def test_a_site_that_refuses_duplicates_is_told_what_their_sender_makes_of_it(
    case: str, tmp_path: Path
) -> None:
    app = shop(tmp_path / "shop.db", right)

    told = failure(app, EVENT, through=refusing(app), path="/pay", only=case)

    app.close()
    assert "not safe to repeat: duplicate refused" in told
    assert "the repeated delivery to /pay was answered 409 known." in told
    assert "Answer 2xx to what duly calls a duplicate." in told


def test_an_event_that_is_refused_for_coming_too_early_comes_again(tmp_path: Path) -> None:
    def handler(event: duly.Event, tx: duly.Tx) -> None:
        if event.type == "made":
            tx.execute("INSERT INTO orders (id, note) VALUES ('o-1', 'new')")
            return
        if not list(tx.execute("SELECT id FROM orders")):
            raise LookupError("it is not made yet")
        tx.execute("UPDATE orders SET note = 'paid'")

    app = inline(tmp_path / "shop.db", handler)
    assert_effectively_once(app, [MADE, SET], source="till", only="reordered")
    app.close()


def test_an_inline_handler_that_fails_on_its_own_traces_for_ever_is_found(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"

    def handler() -> None:
        with closing(sqlite3.connect(tmp_path / "own.db", timeout=10)) as own, own:
            own.execute("INSERT INTO marks VALUES ('o-1')")

    with closing(sqlite3.connect(tmp_path / "own.db")) as own:
        own.execute("CREATE TABLE marks (id TEXT PRIMARY KEY)")
    app = inline(path, handler)

    told = failure(app, MADE, source="till", only="kill:2")

    app.close()
    assert "not safe to repeat: blind insert" in told
    assert "the repeated delivery was answered 500 HANDLER_FAILED" in told
    assert "(IntegrityError: UNIQUE constraint failed: marks.id)" in told
    assert "with ON CONFLICT DO NOTHING" in told
