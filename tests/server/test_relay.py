"""`duly serve` sends what handlers have staged, unless it is told not to."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

import duly
from tests.outbox.receivers import Receiver
from tests.support.processes.leading import until
from tests.support.serving import Served, served

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

pytestmark = pytest.mark.slow

# An event is told to another service, in the transaction that accepts it.
APP = """
import os

import duly

app = duly.Duly(os.environ["SHOP_URL"], egress=duly.Egress(allow=[os.environ["SHOP_THERE"]]))
app.source("stripe", secret=os.environ["SHOP_SECRET"], inline=True)


@app.on("stripe", "*")
def tell(event, tx):
    tx.send(os.environ["SHOP_THERE"] + "/told", json={"event": event.id})
"""


@pytest.fixture(params=["postgres", "sqlite"])
def url(request: pytest.FixtureRequest) -> str:
    name = "own_postgres_url" if request.param == "postgres" else "sqlite_url"
    found: str = request.getfixturevalue(name)
    return found


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


def shop(here: Path, url: str, there: Receiver, *options: str) -> AbstractContextManager[Served]:
    """The application, served."""
    return served(here, "shop:app", *options, SHOP_URL=url, SHOP_THERE=there.url)


def test_what_a_handler_stages_is_sent_by_the_server_that_ran_it(here: Path, url: str) -> None:
    with (
        Receiver() as there,
        served(here, "shop:app", SHOP_URL=url, SHOP_THERE=there.url) as server,
    ):
        assert server.send("evt_1", "paid").body["status"] == "accepted"
        assert server.send("evt_1", "paid").body["status"] == "duplicate"
        there.wait_for(1)
        server.tell(signal.SIGTERM)
        assert server.ended() == 0
        assert "the relay has ended: 1 sent" in server.log()
        assert [one.body for one in there.requests] == [b'{"event":"evt_1"}']


def test_a_message_on_its_way_is_finished_before_the_server_ends(here: Path, url: str) -> None:
    with (
        Receiver() as there,
        served(here, "shop:app", SHOP_URL=url, SHOP_THERE=there.url) as server,
    ):
        released = there.hold("/told", 200)
        server.send("evt_1", "paid")
        until(lambda: there.most_at_once("/told") or None)
        server.tell(signal.SIGTERM)
        server.log_tells("draining")
        released.set()
        assert server.ended() == 0
        assert "the relay has ended: 1 sent" in server.log()
    assert left(url) == 0


def test_a_server_that_is_told_not_to_relay_leaves_messages_to_others(here: Path, url: str) -> None:
    with Receiver() as there, shop(here, url, there, "--no-relay") as server:
        assert server.send("evt_1", "paid").body["status"] == "accepted"
        server.tell(signal.SIGTERM)
        assert server.ended() == 0
        assert there.requests == []
    assert left(url) == 1


def left(url: str) -> int:
    """How many messages are not sent yet."""
    app = duly.Duly(url)
    try:
        return app.outbox.stats().ready
    finally:
        app.close()
