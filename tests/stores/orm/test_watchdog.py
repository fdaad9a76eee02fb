"""The deadlines of blocking transactions: one thread watches them all, and none of them is lost."""

from __future__ import annotations

import os
import sqlite3
import threading
from types import SimpleNamespace

import pytest

from duly.stores.orm import deadlines
from duly.stores.orm.deadlines import Watchdog
from tests.support.processes.leading import PATIENCE

pytestmark = pytest.mark.slow


class RacedWatchdog(Watchdog):
    """A watchdog whose two first callers meet at the worst moment.

    The first one goes on when the second has seen that no thread runs. The second one goes on, if
    it makes anything anew, when the first has its alarm.
    """

    def __init__(self) -> None:
        self.first = threading.Thread(target=self._set_alarm, args=("first",))
        self.second = threading.Thread(target=self._set_alarm, args=("second",))
        self.looked, self.first_set = threading.Event(), threading.Event()
        self.watching = threading.Event()
        self.threads = 0
        self.called = {"first": threading.Event(), "second": threading.Event()}
        super().__init__()

    def getpid(self) -> int:
        """Stands for ``os.getpid``, which is asked after the look at who started a thread."""
        if threading.current_thread() is self.second:
            self.looked.set()
        return os.getpid()

    def _set_alarm(self, name: str) -> None:
        self.call_after(0, self.called[name].set)
        if name == "first":
            self.first_set.set()

    def _reset(self) -> None:
        if threading.current_thread() is self.first:
            self.second.start()
            assert self.looked.wait(PATIENCE)
        elif threading.current_thread() is self.second:
            assert self.first_set.wait(PATIENCE)
        super()._reset()

    def _run_alarms(self) -> None:
        """Watch when both alarms are set, and until both were called."""
        self.threads += 1
        assert self.watching.wait(PATIENCE)
        while not all(one.is_set() for one in self.called.values()):
            call = self._next_call()
            if call is not None:
                call()


def test_of_two_first_deadlines_on_two_threads_none_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watchdog = RacedWatchdog()
    monkeypatch.setattr(deadlines, "os", SimpleNamespace(getpid=watchdog.getpid))
    watchdog.first.start()
    watchdog.first.join(PATIENCE)
    watchdog.second.join(PATIENCE)
    watchdog.watching.set()
    assert watchdog.called["second"].wait(PATIENCE)
    assert watchdog.called["first"].wait(PATIENCE)
    assert watchdog.threads == 1


def test_a_call_that_fails_ends_no_other_deadline(caplog: pytest.LogCaptureFixture) -> None:
    """SQLite refuses to interrupt a connection that the handler has closed."""
    connection = sqlite3.connect(":memory:")
    connection.close()
    watchdog, called = Watchdog(), threading.Event()
    watchdog.call_after(0, connection.interrupt)
    watchdog.call_after(0, called.set)
    assert called.wait(PATIENCE)
    assert "could not cut the connection" in caplog.text


def test_deadlines_that_were_kept_do_not_pile_up_until_they_would_have_passed() -> None:
    watchdog, called = Watchdog(), threading.Event()
    watchdog.call_after(60, watchdog._reset)  # the next to be due, and wanted
    for _ in range(10 * deadlines.ALARMS_PER_CLEANUP):
        watchdog.call_after(86_400, watchdog._reset).call = None
    assert len(watchdog._due) <= deadlines.ALARMS_PER_CLEANUP + 1
    watchdog.call_after(0, called.set)
    assert called.wait(PATIENCE)
