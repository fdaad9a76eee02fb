"""Mistakes in handlers are told, and never end as a job that is done."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def app() -> Iterator[duly.Duly]:
    app = duly.Duly("memory:")
    yield app
    app.close()


def why(app: duly.Duly) -> str:
    """Why the one job is dead."""
    assert app.work().dead == 1
    [letter] = app.jobs.dead()
    assert letter.failure is not None
    return letter.failure.message


def test_an_effect_that_was_not_awaited_is_no_success(app: duly.Duly) -> None:
    calls: list[str] = []

    @app.job(name="pay")
    async def pay(job: Any) -> None:
        job.effect("charge", calls.append)

    app.enqueue("pay")
    assert "without `await`" in why(app)
    assert calls == []


def test_an_outcome_returned_as_a_class_is_no_success(app: duly.Duly) -> None:
    app.job(name="wait")(lambda: duly.NotYet)
    app.enqueue("wait")
    assert "return NotYet(…)" in why(app)


def test_a_call_that_cannot_be_made_leaves_nothing_unknown(app: duly.Duly) -> None:
    app.job(name="pay")(lambda job: job.effect("charge", lambda: "ch_1"))
    app.enqueue("pay")
    assert "idempotency key as its one argument" in why(app)
    assert app.jobs.dead()[0].unknown == ()


def test_a_result_that_was_lost_is_asked_for_and_then_used(app: duly.Duly) -> None:
    calls: list[str] = []
    got: list[object] = []

    @app.job(name="pay", attempts=2, backoff=duly.Backoff(first=timedelta(0)))
    def pay(job: Any) -> None:
        def charge(key: str) -> Any:
            calls.append(key)
            return object()

        got.append(job.effect("charge", charge))

    job = app.enqueue("pay").id
    assert "could not be stored: say what it was" in why(app)
    assert [one.name for one in app.jobs.dead()[0].unknown] == ["charge"]
    app.jobs.resolve(job, "charge", done=True, result="ch_1")
    app.jobs.replay(job)
    assert app.work().done == 1
    assert (len(calls), got) == (1, ["ch_1"])


def test_values_without_names_and_a_window_without_a_key_are_told(app: duly.Duly) -> None:
    app.job(name="note")(lambda: None)
    with app.transaction() as tx, pytest.raises(duly.errors.UsageError, match="its values by name"):
        tx.execute("SELECT ?", 1)
    with pytest.raises(duly.errors.UsageError, match="give key= as well"):
        app.enqueue("note", window=timedelta(hours=1))


def test_the_log_says_why_a_run_failed_and_why_a_job_is_dead(
    app: duly.Duly, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "duly")

    @app.job(name="mail", attempts=2, backoff=duly.Backoff(first=timedelta(0)))
    def mail(job: Any) -> None:
        raise OSError(f"no post in attempt {job.attempt}")

    app.enqueue("mail")
    app.work()
    failed, dead = (record.getMessage() for record in caplog.records)
    assert "(mail) failed in attempt 1 of 2" in failed
    assert "OSError: no post in attempt 1" in failed
    assert "(mail) is dead after 2 of 2 attempts" in dead
    assert "OSError: no post in attempt 2" in dead
