"""Running handlers inside a transaction that is already open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly._kernel.errors import Misuse
from duly.jobs.tx import AsyncTx, Tx

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly._kernel.session import Opened
    from duly.jobs.handlers import Handler


class HandlerFailed(Exception):  # a fact about the user's code, not an error of duly's
    """A handler raised; the cause is what it raised, and its transaction was rolled back."""

    def __init__(self, name: str) -> None:
        super().__init__(f"handler {name} failed; its transaction was rolled back")
        self.name = name


class Unfinished(HandlerFailed):
    """The handlers are through, but what they wrote cannot be committed."""

    def __init__(self) -> None:
        Exception.__init__(
            self, "what the handlers wrote could not be committed; it was rolled back"
        )


async def run_inside(handlers: Sequence[Handler], event: object, opened: Opened) -> None:
    """Run each handler in turn in the open transaction; the first that raises ends them all."""
    for handler in handlers:
        tx = AsyncTx(opened) if handler.colour == "async" else Tx(opened)
        try:
            with tx.lasting():
                done = handler.call(**handler.arguments(event=event, tx=tx))
                if handler.colour == "async":
                    await done
                elif hasattr(done, "__await__"):
                    if hasattr(done, "close"):
                        done.close()  # or Python complains that it was never awaited
                    raise Misuse(
                        f"handler {handler.name} returned something to await: make it `async def`"
                    )
        except (Exception, SystemExit) as problem:  # sys.exit() in a handler ends no server
            raise HandlerFailed(handler.name) from problem
