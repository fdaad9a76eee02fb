"""Defaults, each with the reason for its number, and the names of duly's tables."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache

from duly.core.errors import UsageError

# Longer than any provider in our list keeps retrying (the longest documented is 30 days).
CLAIM_TTL = timedelta(days=30)
# Long enough to look into a complaint; the claim outlives it, so nothing is processed twice.
BODIES_KEPT = timedelta(days=14)
# What happened in which minute is of little use after a month.
COUNTERS_KEPT = timedelta(days=30)
# What became of a job is asked for in the days after.
HISTORY_KEPT = timedelta(days=7)
# A duplicate that races the first should answer while its sender listens; most wait 5 s or more.
WAIT = timedelta(seconds=2)
# How long many deliveries wait together for a key that one of them needs: then each goes alone.
BATCH_WAIT = timedelta(milliseconds=250)
# Longer than a call to any API that a caller still waits for; after a crash it is the delay before
# another caller may try.
FENCE_LEASE = timedelta(minutes=5)
# Where the versions of resources live unless the caller names a scope.
ORDER_SCOPE = "default"
# Far beyond any retry horizon, and still inside what every store can add to today's date.
LONGEST = timedelta(days=36_525)
# Small enough that a chunk holds its locks for milliseconds.
PRUNE_CHUNK = 1000

DEFAULT_PREFIX = "duly_"
# Leaves room for the longest table and index name inside PostgreSQL's 63 bytes.
IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,40}")


@dataclass(frozen=True, slots=True)
class Names:
    """Where duly's tables are: a strictly checked prefix, and on PostgreSQL a schema."""

    prefix: str = DEFAULT_PREFIX
    schema: str | None = None

    def __post_init__(self) -> None:
        checked_identifier("prefix", self.prefix)
        if self.schema is not None:
            checked_identifier("schema", self.schema)

    def table(self, name: str) -> str:
        """The quoted name of one of duly's tables."""
        table = f'"{self.prefix}{name}"'
        return table if self.schema is None else f'"{self.schema}".{table}'


def checked_identifier(what: str, name: object) -> None:
    """Refuse anything but plain lower-case names, so that no setting can carry SQL."""
    if not isinstance(name, str):
        raise UsageError(
            f"{what} must be a string of lower-case letters, not a {type(name).__name__}"
        )
    if IDENTIFIER.fullmatch(name) is None:
        raise UsageError(
            f"{what} {name!r:.60} is not allowed: use 1 to 41 lower-case letters, digits and "
            "underscores, not starting with a digit"
        )


def names(prefix: str | None = None, schema: str | None = None) -> Names:
    """The table names of a call: its arguments, else ``DULY_PREFIX`` and ``DULY_SCHEMA``."""
    if prefix is None:
        prefix = os.environ.get("DULY_PREFIX", DEFAULT_PREFIX)
    if schema is None:
        schema = os.environ.get("DULY_SCHEMA")
    try:
        return cached_names(prefix, schema)
    except TypeError:  # not even hashable
        return Names(prefix, schema)


@lru_cache(maxsize=64)
def cached_names(prefix: str, schema: str | None) -> Names:
    """Names that were checked before are not checked again."""
    return Names(prefix, schema)
