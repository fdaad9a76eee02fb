"""The deadline bounds the wait for a claim, and not what a handler asks of the database."""

from datetime import timedelta

import pytest

import duly
from duly.jobs.tx import AsyncTx
from tests.receiver.faults.shops import Mode, Shop

pytestmark = pytest.mark.slow

DEADLINE = timedelta(seconds=1)
LONGER = "SELECT pg_sleep(1.5)"


def add_slow_handler(app: duly.Duly, mode: Mode) -> None:
    """A handler of the mode's colour whose one statement takes longer than the deadline."""
    if mode == "inline async":

        @app.on("shop", "order.slow", name="count")
        async def count_awaited(tx: AsyncTx) -> None:
            await tx.execute(LONGER)

    else:

        @app.on("shop", "order.slow", name="count")
        def count(tx: duly.Tx) -> None:
            tx.execute(LONGER)


@pytest.mark.parametrize(("way", "mode"), [("wsgi", "inline"), ("asgi", "inline async")])
def test_a_handlers_statement_may_take_longer_than_the_deadline(
    own_postgres_url: str, way: str, mode: Mode
) -> None:
    with Shop(own_postgres_url, way, mode, deadline=DEADLINE) as shop:
        add_slow_handler(shop.app, mode)
        assert shop.retried(shop.delivery()).said == "accepted"  # the connections are open now
        assert shop.post(shop.delivery("evt_slow", "order.slow")).said == "accepted"
