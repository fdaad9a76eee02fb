"""One turn of one contender, in a process of its own: `python -m benchmarks.relaying.turns ORDER`.

How fast messages are relayed is not measured here: the receiver says when the first one arrived,
the database when the last is written down as sent.
"""

from __future__ import annotations

import json
import sys
import threading
from importlib import import_module
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, cast

from benchmarks.working.playing import end_with

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

Turn = Literal["relay", "stage", "tell"]
TEXT = "Your order is on its way, and this is what we know of it so far: " * 4


class Order(TypedDict):
    """Whose turn, on which database, to which receiver, and how many messages."""

    player: str
    turn: Turn
    url: str
    port: int
    messages: int
    parent: int


class Stager(Protocol):
    """Stages messages as the contender does."""

    def fill(self, numbers: range) -> None:
        """Many, in one transaction."""

    def within(self, number: int) -> None:
        """A transaction of the caller's: a row of its own, one message, the commit."""


class Player(Protocol):
    """What the module of a contender offers."""

    LEFT: str  # a question: is any message not sent?

    def prepare(self, url: str) -> None:
        """Make its tables."""

    def relay(self, url: str, port: int) -> None:
        """Send until nothing is left, or for ever."""

    def staging(self, url: str, port: int) -> AbstractContextManager[Stager]:
        """Open what stages."""


def player_of(name: str) -> Player:
    return cast("Player", import_module(f"benchmarks.relaying.players.{name}"))


def address(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def target(port: int) -> str:
    """Where every message goes."""
    return f"{address(port)}/orders"


def content(number: int) -> dict[str, Any]:
    """What every message says, about 300 bytes."""
    return {"type": "order.shipped", "order": number, "text": TEXT}


def main(order: Order) -> None:
    threading.Thread(target=end_with, args=(order["parent"],), daemon=True).start()
    turns: dict[Turn, Callable[[Player, Order], None]] = {
        "relay": lambda player, order: player.relay(order["url"], order["port"]),
        "stage": stage,
        "tell": tell,
    }
    turns[order["turn"]](player_of(order["player"]), order)


def stage(player: Player, order: Order) -> None:
    """Transactions per second with a message in each."""
    with player.staging(order["url"], order["port"]) as stager:
        for number in range(-10, 0):  # connected, statements prepared
            stager.within(number)
        begun = monotonic()
        for number in range(order["messages"]):
            stager.within(number)
        print(json.dumps({"rate": order["messages"] / (monotonic() - begun)}), flush=True)


def tell(_: Player, order: Order) -> None:
    """Stage and relay in one process; only duly does that here."""
    from benchmarks.relaying.players import ours

    ours.tell(order["url"], order["port"])


if __name__ == "__main__":
    main(cast("Order", json.loads(sys.argv[1])))
