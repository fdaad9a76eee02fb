"""A worker or a relay on a thread of its own: begun again after an error, ended when told."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import duly
from duly.relay import relay
from duly.relay.settings import RelaySettings
from duly.service import service_thread
from duly.service.service_thread import ServiceThread
from duly.worker import worker
from duly.worker.settings import worker_settings
from tests.support.processes.leading import PATIENCE, until

if TYPE_CHECKING:
    import pytest

SETTINGS = worker_settings(2, None, timedelta(seconds=30), timedelta(seconds=30))


# Nobody listens there.
NOWHERE = "postgresql://shop@127.0.0.1:1/shop"


def test_a_worker_that_cannot_begin_begins_as_soon_as_it_can(
    empty_postgres_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = duly.Duly(empty_postgres_url)
    monkeypatch.setattr(service_thread, "PAUSE", 0.01)
    monkeypatch.setattr(worker, "STARTING", 0.0)
    ran: list[object] = []

    @app.job(name="noted")
    def noted(job: duly.Job) -> None:
        ran.append(job.payload)

    over: list[str] = []
    hosted = ServiceThread(
        lambda: app.process.worker(SETTINGS),
        app.store.aclose_loop,
        restart_on_error=True,
        on_end=lambda: over.append("over"),
    )
    hosted.start()
    until(lambda: True if "the worker failed and starts again" in caplog.text else None)
    app.store.migrate()
    app.enqueue(noted, 7)
    until(lambda: ran or None)
    assert not over
    hosted.stop()
    assert hosted.wait(PATIENCE)
    assert (ran, over, hosted.problem) == ([7], ["over"], None)
    assert hosted.result is not None
    assert hosted.result.done == 1
    app.close()


def test_the_error_of_a_worker_that_is_not_to_begin_again_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "STARTING", 0.0)
    app = duly.Duly(NOWHERE)
    hosted = ServiceThread(lambda: app.process.worker(SETTINGS), app.store.aclose_loop)
    hosted.start()
    assert hosted.wait(PATIENCE)
    assert isinstance(hosted.problem, duly.errors.DulyError)
    assert hosted.result is None


def test_one_that_was_told_to_stop_before_it_began_does_nothing() -> None:
    app = duly.Duly("memory:")
    app.job(name="noted")(noted_by_nobody)
    app.enqueue("noted")
    for stop in ("stop", "stop_now"):
        hosted = ServiceThread(lambda: app.process.worker(SETTINGS), app.store.aclose_loop)
        assert hosted.wait(0)  # nothing was started
        getattr(hosted, stop)()
        hosted.start()
        assert hosted.wait(PATIENCE)
        assert hosted.result is not None
        assert hosted.result.done == 0
    app.close()


def test_a_relay_that_cannot_begin_begins_as_soon_as_it_can(
    empty_postgres_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = duly.Duly(empty_postgres_url)
    monkeypatch.setattr(service_thread, "PAUSE", 0.01)
    monkeypatch.setattr(relay, "STARTING", 0.0)
    sent: list[object] = []

    @app.transport("noted")
    def noted(message: duly.types.Message) -> None:
        sent.append(message.json)

    hosted = ServiceThread(
        lambda: app.process.relay(RelaySettings()),
        app.process.release_loop,
        name="relay",
        restart_on_error=True,
    )
    hosted.start()
    until(lambda: True if "the relay failed and starts again" in caplog.text else None)
    app.store.migrate()
    app.send("noted:here", json=7)
    until(lambda: sent or None)
    hosted.stop()
    assert hosted.wait(PATIENCE)
    assert (sent, hosted.problem) == ([7], None)
    assert hosted.result is not None
    assert hosted.result.sent == 1
    app.close()


def test_a_relay_that_was_told_to_stop_before_it_began_sends_nothing() -> None:
    app = duly.Duly("memory:")
    app.transport("noted")(sent_by_nobody)
    app.send("noted:here")
    for stop in ("stop", "stop_now"):
        hosted = ServiceThread(
            lambda: app.process.relay(RelaySettings()), app.process.release_loop, name="relay"
        )
        getattr(hosted, stop)()
        hosted.start()
        assert hosted.wait(PATIENCE)
        assert hosted.result is not None
        assert hosted.result.sent == 0
    assert app.outbox.stats().ready == 1
    app.close()


def test_a_handler_that_holds_up_the_worker_holds_up_nobody_else() -> None:
    app = duly.Duly("memory:")
    begun, enough = threading.Event(), threading.Event()

    @app.job(name="rude")
    async def rude() -> None:
        begun.set()
        assert enough.wait(PATIENCE)  # as rude as that

    app.enqueue(rude)
    hosted = ServiceThread(
        lambda: app.process.worker(SETTINGS), app.store.aclose_loop, until="idle"
    )
    hosted.start()
    assert begun.wait(PATIENCE)
    assert not hosted.wait(0)
    enough.set()
    assert hosted.wait(PATIENCE)
    assert hosted.result is not None
    assert hosted.result.done == 1
    app.close()


def noted_by_nobody() -> None:
    raise AssertionError("it ran")


def sent_by_nobody(message: duly.types.Message) -> None:
    raise AssertionError("it was sent")
