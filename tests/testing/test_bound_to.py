"""``app.bound_to``: the same application on another database, and back."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import flask
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount, Route

import duly
from duly import fastapi as fastapi_adapter
from duly import flask as flask_adapter
from duly.testing import HandClock, Trial, isolated
from tests.testing.shops import PAID, payments, tables


def events(store: duly.types.Store) -> int:
    app = duly.Duly(store.url)
    with app.transaction() as tx:
        [row] = tx.execute("SELECT count(*) AS events FROM duly_events")
    app.close()
    return int(row["events"])


def test_deliveries_jobs_and_messages_go_there_and_then_back_again(
    shop: duly.Duly, tmp_path: Path
) -> None:
    with duly.store(f"sqlite:///{tmp_path / 'other.db'}") as other:
        sent = duly.sign(shop.router.route_named("stripe").source, b'{"id":"evt_1"}')
        with shop.bound_to(other) as bound:
            assert bound is shop
            assert shop.receive("stripe", sent.headers, sent.body).said == "ignored"
            shop.enqueue("flaky", 0)
            assert shop.jobs.stats().ready == 1
        assert (shop.jobs.stats().ready, events(other)) == (0, 1)
        assert shop.receive("stripe", sent.headers, sent.body).said == "ignored"
        shop.close()


def test_it_goes_back_after_an_error_as_well(shop: duly.Duly) -> None:
    own = shop.store, shop.receiver, shop.router.receiver
    with pytest.raises(ZeroDivisionError), isolated(shop):
        raise ZeroDivisionError
    assert (shop.store, shop.receiver, shop.router.receiver) == own


def test_it_lives_by_the_clock_of_that_database(shop: duly.Duly) -> None:
    clock = HandClock()
    with isolated(shop, clock=clock) as trial:
        tables(trial)
        signed = clock.now
        clock.advance(hours=1)
        old = duly.sign(shop.router.route_named("now").source, b'{"id":"evt_1"}', now=signed)
        assert shop.receive("now", old.headers, old.body).said == "STALE_TIMESTAMP"
        shop.enqueue("flaky", 0, delay=timedelta(hours=2))
        assert len(trial.run_jobs()) == 0
        clock.advance(hours=2)
        assert trial.run_jobs().done == ["flaky"]


async def test_a_site_that_it_is_mounted_in_follows(shop: duly.Duly) -> None:
    endpoint = fastapi_adapter.endpoint(shop, "now")
    site = Starlette(routes=[Route("/pay", endpoint, methods=["POST"]), Mount("/hooks", shop)])
    with isolated(shop) as trial:
        tables(trial)
        assert (await trial.deliver.aio("now", PAID, site=site, path="/pay")).word == "accepted"
        again = await trial.deliver.aio("now", PAID, site=site, path="/hooks/now")
        assert again.word == "duplicate"
        assert payments(trial) == ["evt_1"]


def test_a_site_that_blocks_follows(shop: duly.Duly) -> None:
    site = flask.Flask("site")
    site.register_blueprint(flask_adapter.blueprint(shop), url_prefix="/hooks")
    with isolated(shop) as trial:
        tables(trial)
        answers = trial.deliver("now", PAID, site=site, path="/hooks/now", times=2)
        assert answers.words == ["accepted", "duplicate"]
        assert payments(trial) == ["evt_1"]


def test_an_awaited_site_can_be_called_from_a_test_that_blocks(trial: Trial) -> None:
    site = Starlette(routes=[Mount("/hooks", trial.app)])
    answers = trial.deliver("now", PAID, site=site, path="/hooks/now", times=5, at_once=True)
    assert answers.counts == {"accepted": 1, "duplicate": 4}


@pytest.mark.parametrize("bad", ["sqlite:///shop.db", None, 7])
def test_what_is_no_store_is_refused(bad: Any) -> None:
    app = duly.Duly("memory:")
    with pytest.raises(duly.errors.UsageError, match=r"duly\.store"), app.bound_to(bad):
        pass
    app.close()
