"""duly's bound on waits for locks is for duly's statements, not for the user's beside them."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.core.defaults import ORDER_SCOPE
from duly.core.onestep import finish
from duly.ledger import order_guard
from duly.ledger.arguments import version_advance
from tests.support.servers import through
from tests.webhooks.genuine import keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ASKED = "SELECT current_setting('lock_timeout') AS bound"
OWN = "SELECT set_config('lock_timeout', '7s', true)"
SECRET = keys("stripe").receiver
URL = "https://shop.example/hook"
SHORT = timedelta(milliseconds=50)


@pytest.fixture(params=["postgres", "pgbouncer"])
def app(request: pytest.FixtureRequest, own_postgres_url: str) -> Iterator[duly.Duly]:
    """An application on PostgreSQL, also by way of PgBouncer."""
    url = own_postgres_url
    if request.param == "pgbouncer":
        url = through(request.getfixturevalue("bouncer_address"), url)
    app = duly.Duly(url)
    app.job(name="child")(lambda job: job)  # it never runs
    yield app
    app.close()


def bound(tx: Any) -> str:
    """For how long a statement of the user's would wait for a lock; 0 is for ever."""
    [row] = tx.execute(ASKED)
    return str(row["bound"])


VERBS: dict[str, Callable[[Any], Any]] = {
    "enqueue": lambda tx: tx.enqueue("child", key="1"),
    "enqueue again": lambda tx: [tx.enqueue("child", key="1") for _ in range(2)],
    "enqueue_many": lambda tx: tx.enqueue_many("child", ["1", "2"], keys=["1", "2"]),
    "send": lambda tx: tx.send(URL, json={}, key="1"),
    "newer": lambda tx: tx.newer("resource", 1),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_of_duly_in_a_transaction_leaves_the_users_own_bound(
    app: duly.Duly, verb: str
) -> None:
    with app.transaction() as tx:
        VERBS[verb](tx)
        assert bound(tx) == "0"
        tx.execute(OWN)
        tx.newer("another", 1)
        assert bound(tx) == "7s"
    with app.transaction() as tx:
        assert bound(tx) == "0"


async def test_a_verb_that_is_awaited_leaves_it_too(app: duly.Duly) -> None:
    async with app.aio.transaction() as tx:
        await tx.execute(OWN)
        await tx.newer("resource", 1)
        await tx.enqueue("child", key="one")
        [row] = await tx.execute(ASKED)
        assert row["bound"] == "7s"
    await app.aclose()


@pytest.mark.parametrize("inline", [False, True], ids=["ordered", "inline"])
def test_a_handler_waits_for_its_own_rows_as_long_as_it_likes(
    app: duly.Duly, *, inline: bool
) -> None:
    bounds: list[str] = []

    def pay(event: Any, tx: Any) -> None:
        bounds.append(bound(tx))

    app.source("shop", provider="stripe", secret=SECRET, inline=inline)
    app.on("shop", name="pay", order=None if inline else ("id", "created"))(pay)
    event = {"id": "evt_1", "type": "paid", "created": int(time.time())}
    sent = duly.sign("stripe", json.dumps(event).encode(), SECRET)
    assert app.receive("shop", sent.headers, sent.body).status == 200
    assert inline or app.work().done == 1
    assert bounds == ["0"]


def test_duly_itself_still_waits_no_longer_than_its_bound(app: duly.Duly) -> None:
    asked = version_advance(ORDER_SCOPE, "resource", 2, None)

    async def advanced() -> bool:
        async with app.store.sync_runner.open_transaction(wait=SHORT) as opened:
            return await order_guard.newer(opened.session, asked)

    with app.transaction() as holder:
        holder.newer("resource", 1)
        with pytest.raises(duly.errors.InProgress):
            finish(advanced())
    assert finish(advanced())
