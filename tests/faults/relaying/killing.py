"""Relays that die at a chosen step: `python -m tests.faults.relaying.killing`.

For each order on its input it forks a child, which relays until nothing is left or until it kills
itself with a real SIGKILL. Each statement has two steps, before and after it; so have the moments
between the receiver's answer and what is written about it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duly.runtime.calling import clients, transports  # noqa: F401  # before the fork, not after
from duly.runtime.relaying.sending import Sender
from duly.stores.postgres.patience import PatientAsyncConnection
from duly.stores.sqlite.own import OwnCursor
from tests.faults.relaying.posts import sender

if TYPE_CHECKING:
    from duly.outbox.leases import LeasedMessage

MODULE = "tests.faults.relaying.killing"
# Longer than any child lives: who dies leaves his leases to whoever waits for them to run out.
LEASE = timedelta(minutes=10)
ANSWERED = "answered"


class Trap:
    """Names the steps of a relay, and kills the process at one of them."""

    def __init__(self, at: int | None, *, answers: bool) -> None:
        self.steps: list[str] = []
        self._at = at
        self._answers = answers

    def step(self, name: str) -> None:
        """Come to the next point at which the process may die."""
        if (name == ANSWERED) != self._answers:
            return
        if len(self.steps) == self._at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.steps.append(name)

    def lay(self) -> None:
        """Let every statement of the relay pass the trap, on both stores, and every answer."""
        trap = self
        wait, execute, send = PatientAsyncConnection.wait, OwnCursor.execute, Sender.send

        async def trapped_wait(
            self: PatientAsyncConnection, gen: Any, *positional: Any, **options: Any
        ) -> Any:
            text = named(gen)
            trap.step(f"before {text}")
            answer = await wait(self, gen, *positional, **options)
            trap.step(f"after {text}")
            return answer

        def trapped_execute(self: OwnCursor, *arguments: Any) -> Any:
            text = words(str(arguments[0]))
            trap.step(f"before {text}")
            answer = execute(self, *arguments)
            trap.step(f"after {text}")
            return answer

        async def trapped_send(self: Sender, leased: LeasedMessage) -> None:
            try:
                await send(self, leased)
            finally:
                trap.step(ANSWERED)

        for owner, name, trapped in (
            (PatientAsyncConnection, "wait", trapped_wait),
            (OwnCursor, "execute", trapped_execute),
            (Sender, "send", trapped_send),
        ):
            setattr(owner, name, trapped)


def named(gen: Any) -> str:
    """What psycopg is about to do; a generator that has not begun still has its arguments."""
    query = gen.gi_frame.f_locals.get("query")
    return gen.__name__ if query is None else words(str(query))


def words(text: str) -> str:
    """A statement's text in one line, short, but told from every other's."""
    lines = [line.strip() for line in text.splitlines() if not line.strip().startswith("--")]
    whole = " ".join(line for line in lines if line)
    return f"{whole[:40]} … {whole[-60:]}" if len(whole) > 100 else whole


def relayed(url: str, origin: str, at: int | None, *, answers: bool) -> list[str]:
    """Relay until nothing is left, or until death; the steps on the way."""
    app = sender(url, origin)
    trap = Trap(at, answers=answers)
    trap.lay()
    app.relay(concurrency=2, per_destination=2, lease=LEASE)
    return trap.steps


def child(order: list[Any], tell: int) -> None:
    url, origin, at, answers = order
    steps = relayed(url, origin, at, answers=answers)
    os.write(tell, json.dumps(steps).encode())


def forked(order: list[Any]) -> tuple[int, list[str]]:
    """Relay in a forked child; the signal that ended it, and the steps of one that lived."""
    hear, tell = os.pipe()
    number = os.fork()
    if number == 0:
        code = 1
        try:
            child(order, tell)
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(tell)
    with os.fdopen(hear, "rb") as told:
        steps = json.loads(told.read() or b"[]")
    _, status = os.waitpid(number, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "it failed"
    return os.WTERMSIG(status), steps


def main() -> None:
    for line in sys.stdin:
        _, values = json.loads(line)
        print(json.dumps(forked(values["order"])), flush=True)


if __name__ == "__main__":
    main()
