"""Claims per second, one durable commit each, next to hand-written SQL on the same driver.

Rows are named ``<store>/<colour>/<measure>``; `benchmarks.peers` says what the peer does and does
not do. The last measure of each store compares duly with itself: a batch, and its keys one by one.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from benchmarks.report import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.duels import Duel

SERVER = "DULY_TEST_POSTGRES"


@contextmanager
def duels(stores: Sequence[str], *, lean: bool) -> Iterator[list[Duel]]:
    """The duels of the stores asked for, with every connection open until the end."""
    found: list[Duel] = []
    with ExitStack() as stack:
        if "sqlite" in stores:
            from benchmarks import on_sqlite

            found += stack.enter_context(on_sqlite.duels(lean=lean))
        if "postgres" in stores and (server := os.environ.get(SERVER)):
            from benchmarks import on_postgres

            found += stack.enter_context(on_postgres.duels(server, lean=lean))
        elif "postgres" in stores:
            say(f"no rows for postgres: {SERVER} names no server; `make bench` starts one")
        yield found
