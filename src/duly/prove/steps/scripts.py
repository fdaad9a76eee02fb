"""Takes the scripts of ``executescript`` apart: each statement in them is committed by itself."""

from __future__ import annotations

import re
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

# What comes before a statement: spaces, comments, and the ends of others.
LEADING = re.compile(r"(?:\s|;|--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z))*", re.DOTALL)
# What a connection says of itself since Python 3.12, where all before it are of this kind.
LEGACY = -1


def statements_of(script: str) -> list[str]:
    """The statements of a script, without the semicolons and comments between them."""
    found: list[str] = []
    begin = end = 0
    while (end := script.find(";", end) + 1) > 0:
        if sqlite3.complete_statement(script[begin:end]):
            found.append(script[begin:end])
            begin = end
    found.append(script[begin:])
    bare = (LEADING.sub("", one, count=1).rstrip().rstrip(";").rstrip() for one in found)
    return [one for one in bare if one]


@contextmanager
def as_a_script(connection: Any) -> Iterator[None]:
    """Run statements as a script runs them: after a COMMIT, and with no BEGIN of the driver's."""
    if getattr(connection, "autocommit", LEGACY) != LEGACY:
        yield  # this kind of connection does neither
        return
    connection.commit()
    level = connection.isolation_level
    if level is None:  # set once more, it would end a transaction that the script leaves open
        yield
        return
    connection.isolation_level = None
    try:
        yield
    finally:
        connection.isolation_level = level
