"""Watch psycopg: every exchange with the server goes through ``wait`` of a connection.

What is waited for is a generator, which has its arguments before it begins.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import psycopg
from psycopg.pq import TransactionStatus

from duly.prove.steps.watching import replace_attribute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.prove.steps.watching import Steps

ENDS = {"_commit_gen": "COMMIT", "_rollback_gen": "ROLLBACK"}


class Exchange(NamedTuple):
    """What an exchange is about."""

    text: str
    values: Any


# A COPY to the server has its statement when it begins, and its effect when it ends.
COPIES: WeakKeyDictionary[Any, Exchange] = WeakKeyDictionary()
READS = re.compile(r".*\bTO\s+STDOUT\b", re.IGNORECASE | re.DOTALL)


@contextmanager
def watch_psycopg(steps: Steps) -> Iterator[None]:
    """Tell of the statements of every connection, those that are open already included."""
    wait, await_ = psycopg.Connection.wait, psycopg.AsyncConnection.wait

    def wait_watched(self: Any, gen: Any, *positional: Any, **options: Any) -> Any:
        said = exchange_of(gen, self)
        if said is None:
            return wait(self, gen, *positional, **options)
        with steps.step(*said, self):
            return wait(self, gen, *positional, **options)

    async def wait_watched_async(self: Any, gen: Any, *positional: Any, **options: Any) -> Any:
        said = exchange_of(gen, self)
        if said is None:
            return await await_(self, gen, *positional, **options)
        with steps.step(*said, self):
            return await await_(self, gen, *positional, **options)

    with (
        replace_attribute(psycopg.Connection, "wait", wait_watched),
        replace_attribute(psycopg.AsyncConnection, "wait", wait_watched_async),
    ):
        yield


def exchange_of(gen: Any, connection: Any) -> Exchange | None:
    """The statement that is sent; None where it is none."""
    frame = getattr(gen, "gi_frame", None)
    found = {} if frame is None else frame.f_locals
    if "steps" in found and hasattr(found["steps"], "gi_frame"):
        return exchange_of(found["steps"], connection)  # duly's own connections add a deadline
    if "query" in found:
        params = found.get("params", found.get("params_seq"))
        return Exchange(query_text(found["query"], connection), params)
    name = getattr(gen, "__name__", "")
    return copy_exchange(name, found, connection) or transaction_exchange(name, found, connection)


def copy_exchange(name: str, found: dict[str, Any], connection: Any) -> Exchange | None:
    """A COPY, from the generators by which it begins and ends."""
    if name == "copy_end":
        return COPIES.pop(connection, None)
    if name != "_start_copy_gen":
        return None
    said = Exchange(query_text(found["statement"], connection), found["params"])
    if READS.match(said.text):
        return said
    COPIES[connection] = said
    return None


def transaction_exchange(name: str, found: dict[str, Any], connection: Any) -> Exchange | None:
    """The frame of a transaction, from the generator that sends it."""
    if name in ENDS:
        return Exchange(ENDS[name], None)
    if name == "_enter_gen":
        inside = connection.pgconn.transaction_status != TransactionStatus.IDLE
        return Exchange("SAVEPOINT" if inside else "BEGIN", None)
    if name == "_exit_gen":
        return Exchange(block_end_statement(**found), None)
    return None


def query_text(query: Any, connection: Any) -> str:
    """A statement as it is sent."""
    if isinstance(query, bytes):
        return query.decode()
    return query if isinstance(query, str) else str(query.as_string(connection))


def block_end_statement(self: Any, exc_type: Any = None, **_: Any) -> str:
    """How a block of ``transaction()`` ends, from the arguments of its ending."""
    failed = exc_type is not None or self.force_rollback
    if self.savepoint_name:
        return "ROLLBACK TO SAVEPOINT" if failed else "RELEASE SAVEPOINT"
    return "ROLLBACK" if failed else "COMMIT"
