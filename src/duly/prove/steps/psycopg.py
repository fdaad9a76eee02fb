"""Watches psycopg: whatever it says to the server goes through ``wait`` of a connection.

What is waited for is a generator, which has its arguments before it begins.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import psycopg
from psycopg.pq import TransactionStatus

from duly.prove.steps.watching import replaced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.prove.steps.watching import Steps

ENDS = {"_commit_gen": "COMMIT", "_rollback_gen": "ROLLBACK"}


class Said(NamedTuple):
    """What an exchange is about."""

    text: str
    values: Any


# A COPY to the server has its statement when it begins, and its effect when it ends.
COPIES: WeakKeyDictionary[Any, Said] = WeakKeyDictionary()
READS = re.compile(r".*\bTO\s+STDOUT\b", re.IGNORECASE | re.DOTALL)


@contextmanager
def watch_psycopg(steps: Steps) -> Iterator[None]:
    """Tell of the statements of every connection, those that are open already included."""
    wait, await_ = psycopg.Connection.wait, psycopg.AsyncConnection.wait

    def waited(self: Any, gen: Any, *positional: Any, **options: Any) -> Any:
        said = spoken(gen, self)
        if said is None:
            return wait(self, gen, *positional, **options)
        with steps.step(*said, self):
            return wait(self, gen, *positional, **options)

    async def awaited(self: Any, gen: Any, *positional: Any, **options: Any) -> Any:
        said = spoken(gen, self)
        if said is None:
            return await await_(self, gen, *positional, **options)
        with steps.step(*said, self):
            return await await_(self, gen, *positional, **options)

    with (
        replaced(psycopg.Connection, "wait", waited),
        replaced(psycopg.AsyncConnection, "wait", awaited),
    ):
        yield


def spoken(gen: Any, connection: Any) -> Said | None:
    """What the server is told; None where it is not a statement."""
    frame = getattr(gen, "gi_frame", None)
    found = {} if frame is None else frame.f_locals
    if "steps" in found and hasattr(found["steps"], "gi_frame"):
        return spoken(found["steps"], connection)  # duly's own connections add a deadline
    if "query" in found:
        params = found.get("params", found.get("params_seq"))
        return Said(written(found["query"], connection), params)
    name = getattr(gen, "__name__", "")
    return copied(name, found, connection) or framed(name, found, connection)


def copied(name: str, found: dict[str, Any], connection: Any) -> Said | None:
    """A COPY, from the generators by which it begins and ends."""
    if name == "copy_end":
        return COPIES.pop(connection, None)
    if name != "_start_copy_gen":
        return None
    said = Said(written(found["statement"], connection), found["params"])
    if READS.match(said.text):
        return said
    COPIES[connection] = said
    return None


def framed(name: str, found: dict[str, Any], connection: Any) -> Said | None:
    """The frame of a transaction, from the generator that sends it."""
    if name in ENDS:
        return Said(ENDS[name], None)
    if name == "_enter_gen":
        inside = connection.pgconn.transaction_status != TransactionStatus.IDLE
        return Said("SAVEPOINT" if inside else "BEGIN", None)
    if name == "_exit_gen":
        return Said(ended(**found), None)
    return None


def written(query: Any, connection: Any) -> str:
    """A statement as it is sent."""
    if isinstance(query, bytes):
        return query.decode()
    return query if isinstance(query, str) else str(query.as_string(connection))


def ended(self: Any, exc_type: Any = None, **_: Any) -> str:
    """How a block of ``transaction()`` ends, from the arguments of its ending."""
    failed = exc_type is not None or self.force_rollback
    if self.savepoint_name:
        return "ROLLBACK TO SAVEPOINT" if failed else "RELEASE SAVEPOINT"
    return "ROLLBACK" if failed else "COMMIT"
