"""The worker's end: reads a request a line, does it, and prints what came of it."""

import json
import os
import random
import signal
import sys
import time
from datetime import timedelta
from typing import Any

import duly
from tests.support.processes.effects import Side

SCOPE_LEASE = timedelta(seconds=1)


class Working:
    """One worker: its store, its own connection, and the turn it is in."""

    def __init__(self, url: str) -> None:
        self.store = duly.store(url)
        self.side = Side(url)
        self.turns: Any = None  # Any: of either form
        self.turn: Any = None

    def begin(self) -> str:
        self.side.begin()
        return "begun"

    def claim(self, scope: str, key: str) -> dict[str, object]:
        """Enter ``once`` in the open transaction."""
        self.turns = duly.once(self.side.connection, scope, key)
        return self._entered()

    def take(self, scope: str, key: str, lease: float) -> dict[str, object]:
        """Enter ``once`` under a lease."""
        self.turns = duly.once(self.store, scope, key, lease=timedelta(seconds=lease))
        return self._entered() | {"epoch": self.turn.epoch}

    def _entered(self) -> dict[str, object]:
        self.turn = self.turns.__enter__()
        return {"first": self.turn.first, "result": self.turn.result}

    def work(self, name: str) -> str:
        self.side.work(name, str(os.getpid()))
        return "worked"

    def leave(self, result: object) -> str:
        """Leave the block with a result."""
        self.turn.result = result
        self.turns.__exit__(None, None, None)
        return "left"

    def commit(self) -> str:
        self.side.commit()
        return "committed"

    def commit_and_die(self) -> None:
        """Nobody hears of this COMMIT."""
        self.side.commit()
        os.kill(os.getpid(), signal.SIGKILL)

    def renew(self) -> str:
        self.turn.renew()
        return "renewed"

    def mark(self, result: object) -> str:
        self.turn.mark(result)
        return "marked"

    def work_and_mark(self, name: str, result: object) -> str:
        """The last transaction of long work: effect and mark together."""
        self.side.begin()
        try:
            self.side.work(name, str(os.getpid()))
            self.turn.mark(result, tx=self.side.connection)
        except BaseException:
            self.side.roll_back()
            raise
        self.side.commit()
        return "marked"

    def race(self, scope: str, keys: list[str], form: str) -> str:
        """Work through all keys, in an order of its own, printing each that is settled."""
        do = self._in_transaction if form == "transaction" else self._under_lease
        left = random.sample(keys, len(keys))
        while left:
            key = left.pop()
            try:
                do(scope, key)
            except (duly.errors.InProgress, duly.errors.LeaseLost) as problem:
                left.insert(0, key)
                time.sleep(min(getattr(problem, "retry_after", SCOPE_LEASE).total_seconds(), 0.02))
            else:
                say("settled")
        return "finished"

    def _in_transaction(self, scope: str, key: str) -> None:
        self.side.begin()
        try:
            with duly.once(self.side.connection, scope, key) as turn:
                if turn.first:
                    self.side.work(key, str(os.getpid()))
        except BaseException:
            self.side.roll_back()
            raise
        self.side.commit()

    def _under_lease(self, scope: str, key: str) -> None:
        with duly.once(self.store, scope, key, lease=SCOPE_LEASE) as self.turn:
            if self.turn.first:
                self.work_and_mark(key, "done")


def say(reply: object) -> None:
    print(json.dumps(reply), flush=True)


def main(url: str) -> None:
    """Serve requests until the pipe is closed; an error of duly's is a reply too."""
    working = Working(url)
    say("ready")
    for line in sys.stdin:
        request, values = json.loads(line)
        try:
            say(getattr(working, request)(**values))
        except duly.errors.DulyError as problem:
            say(type(problem).__name__)


if __name__ == "__main__":
    main(sys.argv[1])
