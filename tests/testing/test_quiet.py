"""In a test jobs run when they are told to, and nobody is warned that no worker is alive."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import duly
from duly.receiver.metrics import NO_WORKER
from duly.testing import isolated

if TYPE_CHECKING:
    import pytest


def test_a_test_is_not_warned_that_no_worker_is_alive(caplog: pytest.LogCaptureFixture) -> None:
    app = duly.Duly("sqlite:///unused.db")
    app.source("shop", provider="standard-webhooks", secret="whsec_" + "A" * 32)
    app.on("shop", "*", name="book")(lambda: None)
    with caplog.at_level(logging.WARNING), isolated(app) as trial:
        trial.deliver("shop", {"type": "order.paid"})
        app.receiver.metrics._warn_without_workers(0)
    assert NO_WORKER not in caplog.messages


def test_nor_when_the_app_leaves_the_database_of_the_test(caplog: pytest.LogCaptureFixture) -> None:
    app = duly.Duly("sqlite:///unused.db")
    app.source("shop", provider="standard-webhooks", secret="whsec_" + "A" * 32)
    app.on("shop", "*", name="book")(lambda: None)
    with caplog.at_level(logging.WARNING), isolated(app) as trial:
        trial.deliver("shop", {"type": "order.paid"})
        trial.app.send("https://books.example/", json={})
    assert caplog.messages == []
