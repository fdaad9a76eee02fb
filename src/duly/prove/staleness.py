"""What the order guard called stale, by ``order=`` or ``tx.newer(…)``: it need take no effect."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from duly.ledger import order_guard
from duly.prove.steps.watching import replace_attribute

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from duly.core.session import Session
    from duly.ledger.arguments import VersionAdvance

    Guard = Callable[[Session, VersionAdvance], Awaitable[bool]]


class StaleCounter:
    """How often a version came later than a newer one in this process."""

    def __init__(self) -> None:
        self.found = 0

    @contextmanager
    def count_stale(self) -> Iterator[None]:
        """Count inside the block."""
        with ExitStack() as stack:
            for name in ("newer", "would_apply"):
                stack.enter_context(
                    replace_attribute(
                        order_guard, name, self._count_calls(getattr(order_guard, name))
                    )
                )
            yield

    def _count_calls(self, guard: Guard) -> Guard:
        async def guard_and_count(session: Session, asked: VersionAdvance) -> bool:
            applies = await guard(session, asked)
            self.found += not applies
            return applies

        return guard_and_count
