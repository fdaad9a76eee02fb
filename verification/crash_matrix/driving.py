"""Shares the orders out among lanes, each a process, and ends them all where told to."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from verification.crash_matrix.findings import Findings

# Seconds for a lane to end before it is told once more.
HEARING = 2.0


def share_out(orders: list[dict[str, Any]], lanes: int, findings: Findings, shown: Shown) -> None:
    """Let every lane take the next order until there is none; or end them all where told to."""
    queue: SimpleQueue[dict[str, Any]] = SimpleQueue()
    for order in orders:
        queue.put(order)
    at_work: set[subprocess.Popen[str]] = set()
    driving = (queue, at_work, findings, shown)
    # Daemons: whoever ends this early does not wait for their orders.
    threads = [threading.Thread(target=drive, args=driving, daemon=True) for _ in range(lanes)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        findings.cut_short = True
        for lane in list(at_work):
            end(lane)
        raise


def end(lane: subprocess.Popen[str]) -> None:
    """Tell a lane to end until it does: Python drops an exit that comes in one of its callbacks."""
    while lane.poll() is None:
        lane.terminate()
        with suppress(subprocess.TimeoutExpired):
            lane.wait(HEARING)


def drive(
    queue: SimpleQueue[dict[str, Any]],
    at_work: set[subprocess.Popen[str]],
    findings: Findings,
    shown: Shown,
) -> None:
    """One lane, from its first order to its last; a new process where one broke."""
    lane: subprocess.Popen[str] | None = None
    while not findings.cut_short:
        try:
            order = queue.get_nowait()
        except Empty:
            break
        lane = lane or started()
        at_work.add(lane)
        if not obeyed(lane, order, findings, shown):
            lane.kill()
            at_work.discard(lane)
            lane = None
    if lane is not None:
        at_work.discard(lane)
        lane.communicate()


def started() -> subprocess.Popen[str]:
    """A process that carries out orders."""
    return subprocess.Popen(
        [sys.executable, "-m", "verification.crash_matrix.units"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for whoever drives it, and that one ends the lanes
    )


def obeyed(
    lane: subprocess.Popen[str], order: dict[str, Any], findings: Findings, shown: Shown
) -> bool:
    """Whether the lane carried out the order to its end."""
    assert lane.stdin is not None
    assert lane.stdout is not None
    lane.stdin.write(json.dumps(order) + "\n")
    lane.stdin.flush()
    for line in lane.stdout:
        told = json.loads(line)
        if told["kind"] == "done":
            return True
        findings.take(told)
        shown.tell(findings)
    if not findings.cut_short:
        findings.fail(order, f"the lane broke with {lane.wait()}: see what it printed above")
    return False


class Shown:
    """Progress: a line that is rewritten on a terminal, a line every few seconds elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        self._terminal, self._quiet = sys.stderr.isatty(), quiet
        self._begun = self._last = time.monotonic()

    def tell(self, findings: Findings) -> None:
        """Say how far it is, not too often."""
        now = time.monotonic()
        if self._quiet or now - self._last < (0.2 if self._terminal else 15):
            return
        self._last = now
        line = (
            f"matrix: {findings.cases} of {findings.planned} planned so far,"
            f" {len(findings.violations)} violations, {now - self._begun:.0f} s"
        )
        print(f"\r{line}" if self._terminal else line, end="" if self._terminal else "\n",
              file=sys.stderr, flush=True)  # fmt: skip

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._begun
