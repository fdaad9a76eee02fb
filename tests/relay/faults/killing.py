"""Relays that die at a chosen step: `python -m tests.relay.faults.killing`.

For each order on its input it forks a child, which relays until nothing is left or until it kills
itself with a real SIGKILL. Every statement has two steps, before and after it, and so has every
message: the receiver has answered, and nothing is written about it yet.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duly.http_client import async_transport  # noqa: F401  # before the fork, not in each child
from duly.relay.sender import Sender
from duly.stores.postgres.deadlines import DeadlineAsyncConnection
from duly.stores.sql.statements import Statements
from duly.stores.sqlite.connection import WriterCursor
from tests.relay.faults.posts import sender

if TYPE_CHECKING:
    from collections.abc import Sequence

MODULE = "tests.relay.faults.killing"
# Longer than any child lives: whoever dies leaves his leases behind.
LEASE = timedelta(minutes=10)
# A step, and how often it was come to before; several sends and statements go on at once, so that
# a number of its own would not lead two relays to the same place.
Place = tuple[str, int]


class Trap:
    """Names the steps of a relay, and kills the process at one of them."""

    def __init__(self, at: Place | None) -> None:
        self.places: list[Place] = []
        self._at = at
        self._seen: Counter[str] = Counter()
        self._names: dict[str, str] = {}
        self._last = ""

    def step(self, name: str) -> None:
        """Come to the next point at which the process may die."""
        place = (name, self._seen[name])
        if place == self._at:
            os.kill(os.getpid(), signal.SIGKILL)
        self._seen[name] += 1
        self.places.append(place)

    def named(self, text: str) -> str:
        """What a statement is called; the ends of transactions are told by what was in them."""
        name = self._names.get(text)
        if name is None:
            return f"{text} of {self._last}" if text == "COMMIT" else text
        self._last = name
        return name

    def lay(self) -> None:
        """Let the relay pass the trap wherever it goes, on both stores."""
        self._learn_names()
        self._lay_on_sqlite()
        self._lay_on_postgres()
        self._lay_on_answers()

    def _learn_names(self) -> None:
        names, found, cut = self._names, Statements.__getitem__, Statements.without_rows

        def noted(self: Statements, name: str) -> Any:
            prepared = found(self, name)
            names[prepared.text] = name
            return prepared

        def noted_without_rows(self: Statements, name: str) -> str:
            text = cut(self, name)
            names[text] = name
            return text

        # This process dies soon. A text may have been cut before it was forked.
        Statements.__getitem__ = noted  # type: ignore[method-assign]
        Statements.without_rows = noted_without_rows  # type: ignore[method-assign]

    def _lay_on_sqlite(self) -> None:
        trap, execute = self, WriterCursor.execute

        def trapped(self: WriterCursor, *arguments: Any) -> Any:
            name = trap.named(str(arguments[0]))
            trap.step(f"before {name}")
            answer = execute(self, *arguments)
            trap.step(f"after {name}")
            return answer

        WriterCursor.execute = trapped  # type: ignore[method-assign]  # this process dies soon

    def _lay_on_postgres(self) -> None:
        trap, wait = self, DeadlineAsyncConnection.wait

        async def trapped(
            self: DeadlineAsyncConnection, gen: Any, *positional: Any, **options: Any
        ) -> Any:
            # A generator that has not begun still has its arguments.
            query = gen.gi_frame.f_locals.get("query")
            name = gen.__name__ if query is None else trap.named(str(query))
            trap.step(f"before {name}")
            answer = await wait(self, gen, *positional, **options)
            trap.step(f"after {name}")
            return answer

        DeadlineAsyncConnection.wait = trapped  # type: ignore[method-assign]  # as above

    def _lay_on_answers(self) -> None:
        trap, send = self, Sender.send

        async def trapped(*arguments: Any) -> None:
            try:
                await send(*arguments)
            finally:
                trap.step("answered")

        Sender.send = trapped  # type: ignore[method-assign, assignment]  # as above


def child(url: str, origin: str, at: Sequence[Any] | None) -> list[Place]:
    """Relay until nothing is left, or until death; the steps on the way."""
    app = sender(url, origin)
    trap = Trap(None if at is None else (at[0], at[1]))
    trap.lay()
    app.relay(concurrency=2, per_destination=2, lease=LEASE)
    return trap.places


def forked(order: list[Any]) -> tuple[int, list[Place]]:
    """Relay in a forked child; the signal that ended it, and the steps of one that lived."""
    hear, tell = os.pipe()
    number = os.fork()
    if number == 0:
        code = 1
        try:
            os.write(tell, json.dumps(child(*order)).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(tell)
    with os.fdopen(hear, "rb") as told:
        places = json.loads(told.read() or b"[]")
    _, status = os.waitpid(number, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "it failed by itself"
    return os.WTERMSIG(status), places


def main() -> None:
    """Carry out orders, one to a line, until there are no more."""
    for line in sys.stdin:
        _, values = json.loads(line)
        print(json.dumps(forked(values["order"])), flush=True)


if __name__ == "__main__":
    main()
