"""A process that ends knows of every handler that it gave up and that still runs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from duly.server.shutdown import has_hung_handlers
from duly.service.threads import run_with_timeout
from duly.worker.thread_pool import ThreadPool
from tests.support.processes.leading import until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Ends what hangs; threads of other tests are not seen meanwhile."""
    before, list_all, event = set(threading.enumerate()), threading.enumerate, threading.Event()
    monkeypatch.setattr(threading, "enumerate", lambda: [*{*list_all()} - before])
    assert not has_hung_handlers()
    yield event
    event.set()
    until(lambda: not has_hung_handlers() or None)


def test_a_job_that_hangs_on_a_thread_of_the_worker_is_seen(
    released: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ThreadPool, "_execute", lambda *_: released.wait())
    pool: Any = ThreadPool(None, lambda *_: None)  # type: ignore[arg-type]  # nothing is executed
    pool.submit(object())
    assert has_hung_handlers()
    pool.close()


def test_a_transport_that_hangs_past_its_timeout_is_seen(released: threading.Event) -> None:
    with pytest.raises(TimeoutError):
        run_with_timeout(released.wait, 0.01)
    assert has_hung_handlers()
