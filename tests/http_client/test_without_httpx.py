"""Without httpx nothing is sent, and who tries is told what to install."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import duly
from duly.errors import UsageError
from tests.http_client.callers import COLOURS, in_a_job

REMEDY = r"needs httpx: pip install '\.\[http\]'"


@pytest.fixture
def no_httpx(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where it was never installed."""
    for name in list(sys.modules):
        if name.startswith(("duly.http_client", "httpx", "httpcore")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.setitem(sys.modules, "httpcore", None)


@pytest.mark.parametrize("colour", COLOURS)
def test_a_job_without_httpx_is_told_the_remedy(colour: str, no_httpx: None) -> None:
    ran = in_a_job(colour, duly.Egress(), lambda http: http)

    assert isinstance(ran.problem, UsageError)
    with pytest.raises(UsageError, match=REMEDY):
        raise ran.problem


def test_a_relay_without_httpx_keeps_its_messages_for_one_that_has_it(
    no_httpx: None, caplog: pytest.LogCaptureFixture
) -> None:
    app = duly.Duly("memory:")
    app.send("https://example.com/hook", json={})
    relayed = app.relay()

    assert (relayed.sent, relayed.dead) == (0, 0)
    assert relayed.retried >= 1
    assert "needs httpx: pip install '.[http]'" in caplog.text


def test_a_transport_of_the_users_own_needs_no_httpx(no_httpx: None) -> None:
    app = duly.Duly("memory:")
    taken: list[Any] = []

    @app.transport("mail")
    def mail(message: Any) -> None:
        taken.append(message.to)

    app.send("mail:ann@example.com", json={})

    assert app.relay().sent == 1
    assert taken == ["ann@example.com"]
