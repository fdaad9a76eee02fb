"""A process that stages messages says so if no relay is alive to send them."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import duly
from duly.cli import outbox as command
from duly.cli.main import main
from duly.core.defaults import WAIT
from duly.core.onestep import finish
from duly.outbox.relay_liveness import NO_RELAY
from duly.receiver import metrics
from duly.relay.settings import RelaySettings
from duly.server.services import relay_service
from duly.testing import isolated
from duly.worker import settings
from duly.worker.settings import WorkerPauses
from tests.support.processes.leading import PATIENCE, until
from tests.support.serving import served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ADDRESS = "mail:ann@example.com"
APP = """
import os

import duly

app = duly.Duly(os.environ["SHOP_URL"])
app.source("stripe", secret=os.environ["SHOP_SECRET"], inline=True)


@app.transport("mail")
def mail(message):
    pass


@app.on("stripe", "*")
def tell(event, tx):
    tx.send("mail:ann@example.com")
"""


@pytest.fixture(params=["postgres", "sqlite"])
def url(request: pytest.FixtureRequest) -> str:
    name = "own_postgres_url" if request.param == "postgres" else "sqlite_url"
    found: str = request.getfixturevalue(name)
    return found


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes look after a moment."""
    monkeypatch.setattr(metrics, "PAUSE", 0.01)
    monkeypatch.setattr(settings, "PAUSES", WorkerPauses(counters=0.01))


@pytest.fixture
def app(url: str) -> Iterator[duly.Duly]:
    with closing(duly.Duly(url)) as made:
        made.transport("mail")(mail)
        made.store.open()
        yield made


def mail(message: duly.types.Message) -> None:
    """Always arrives."""


def warnings(caplog: pytest.LogCaptureFixture) -> int:
    return caplog.messages.count(NO_RELAY)


def unattended(app: duly.Duly) -> bool:
    """What the next look would find."""
    look = app.registries.outbox.relay_liveness.is_unattended
    return finish(app.store.sync_runner.run_autocommit(look, wait=WAIT))


@contextmanager
def relaying(app: duly.Duly) -> Iterator[None]:
    """A relay that sends until the end of the block, and is known to be alive."""
    relay = relay_service(app, RelaySettings(), on_end=lambda: None)
    relay.start()
    try:
        until(lambda: app.outbox.stats().relays or None)
        yield
    finally:
        relay.stop()
        assert relay.wait(PATIENCE)


def test_a_caller_that_stages_without_a_relay_is_warned_once(
    app: duly.Duly, caplog: pytest.LogCaptureFixture
) -> None:
    app.send(ADDRESS)
    until(lambda: warnings(caplog) or None)
    app.send(ADDRESS)
    assert not app.registries.outbox.relay_liveness.wants_check()
    assert warnings(caplog) == 1


def test_a_transaction_that_stages_without_a_relay_is_warned(
    app: duly.Duly, caplog: pytest.LogCaptureFixture
) -> None:
    with app.transaction() as tx:
        tx.send(ADDRESS)
    until(lambda: warnings(caplog) or None)


async def test_an_awaited_caller_is_warned_too(
    app: duly.Duly, caplog: pytest.LogCaptureFixture
) -> None:
    await app.aio.send(ADDRESS)
    async with asyncio.timeout(PATIENCE):
        while not warnings(caplog):  # noqa: ASYNC110  # it is the log
            await asyncio.sleep(0.01)
    await app.aclose()


async def test_a_worker_whose_handlers_stage_without_a_relay_warns(
    app: duly.Duly, caplog: pytest.LogCaptureFixture
) -> None:
    @app.job(name="tell")
    def tell(tx: duly.Tx) -> None:
        tx.send(ADDRESS)

    await app.aio.enqueue(tell)
    working = asyncio.ensure_future(app.aio.work(until="stopped"))
    async with asyncio.timeout(PATIENCE):
        while not warnings(caplog):  # noqa: ASYNC110  # it is the log
            await asyncio.sleep(0.01)
    working.cancel()
    await asyncio.wait([working])
    await app.aclose()


def test_what_was_rolled_back_waits_for_no_relay(app: duly.Duly) -> None:
    with pytest.raises(ZeroDivisionError), app.transaction() as tx:
        tx.send(ADDRESS)
        raise ZeroDivisionError
    assert not unattended(app)
    with app.transaction() as tx:
        tx.send(ADDRESS)
    assert unattended(app)


def test_a_relay_is_known_to_be_alive_until_it_ends_and_is_no_worker(app: duly.Duly) -> None:
    with relaying(app):
        stats = app.outbox.stats()
        assert len(stats.relays) == 1
        assert app.jobs.stats().workers == ()
        app.send(ADDRESS)
        assert not unattended(app)
    assert app.outbox.stats().relays == ()
    app.send(ADDRESS)
    assert unattended(app)


def test_the_outbox_command_says_whether_a_relay_is_running(
    app: duly.Duly, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["outbox", app.store.url]) == 0
    assert capsys.readouterr() == ("no messages\n", "")
    app.send(ADDRESS, delay=timedelta(hours=1))
    assert main(["outbox", app.store.url]) == 0
    assert capsys.readouterr().err == f"{command.NO_RELAY}\n"
    assert main(["outbox", app.store.url, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["relays"] == []
    with relaying(app):
        [relay] = app.outbox.stats().relays
        assert main(["outbox", app.store.url]) == 0
        told = capsys.readouterr()
        assert told.out.endswith(f"\nrelay {relay.host}, process {relay.pid}\n")
        assert told.err == ""
        assert main(["outbox", app.store.url, "--json"]) == 0
        [found] = json.loads(capsys.readouterr().out)["relays"]
        assert found == {"id": relay.id, "host": relay.host, "pid": relay.pid}


def test_a_server_without_a_relay_says_that_its_messages_wait(tmp_path: Path, url: str) -> None:
    (tmp_path / "shop.py").write_text(APP)
    with served(tmp_path, "shop:app", "--no-relay", SHOP_URL=url) as server:
        assert server.send("evt_1", "paid").body["status"] == "accepted"
        server.log_tells(NO_RELAY)


def test_a_test_is_not_warned_that_no_relay_is_alive(
    app: duly.Duly, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), isolated(app) as trial:
        trial.app.registries.outbox.relay_liveness.warn_if_unattended(unattended=True)
    assert not warnings(caplog)
