"""What can be asked of the ledger in one transaction, and how Hypothesis makes it up.

There are few names and few lengths of time, so that callers meet and ends coincide.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from hypothesis import strategies as st

from duly.core.json_bytes import Json
from tests.ledger.model import Name, Version

MICROSECOND, SECOND = timedelta(microseconds=1), timedelta(seconds=1)
LENGTHS = [MICROSECOND, 5 * SECOND, 10 * SECOND, 60 * SECOND]
ALL_NAMES: list[Name] = [(scope, key) for scope in ("shop", "bank") for key in ("a", "b", "c")]
SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)
Ending = Literal["result", "nothing", "error"]

names = st.sampled_from(ALL_NAMES)
ttls = st.sampled_from([*LENGTHS, None])
leases = st.sampled_from(LENGTHS)
bodies = st.sampled_from([None, b"one", b"two"])
results: st.SearchStrategy[Json] = st.sampled_from([None, 7, "done", [1, 2], {"id": 3}])
ties = st.sampled_from([None, "apply", "skip"])
versions: st.SearchStrategy[Version] = st.one_of(
    st.integers(-2, 2),
    st.integers(0, 2).map(lambda seconds: SOME_DAY + seconds * SECOND),
    st.sampled_from(["1", "10", "2", "é", "z"]),
)
# An end is met exactly, missed by a microsecond, and passed by one.
amounts = st.sampled_from([each + by for each in LENGTHS for by in (-MICROSECOND, 0 * SECOND)])
limits = st.integers(1, 4)


@dataclass(frozen=True)
class Dedup:
    name: Name
    ttl: timedelta | None
    body: bytes | None


@dataclass(frozen=True)
class Many:
    scope: str
    keys: list[str]
    ttl: timedelta | None


@dataclass(frozen=True)
class Newer:
    name: Name
    version: Version
    tie: str | None


@dataclass(frozen=True)
class Prune:
    limit: int


@dataclass(frozen=True)
class Advance:
    by: timedelta


@dataclass(frozen=True)
class MarkHere:
    """Mark one of the leased turns, in this transaction."""

    choice: int
    result: Json


@dataclass(frozen=True)
class Nested:
    """A savepoint of the user's own."""

    steps: list["Step"]
    kept: bool


@dataclass(frozen=True)
class OnceHere:
    """The inbox pattern: its body is more steps."""

    name: Name
    ttl: timedelta | None
    body: bytes | None
    steps: list["Step"]
    ending: Ending
    result: Json


Step = Dedup | Many | Newer | Prune | Advance | MarkHere | Nested | OnceHere

dedups = st.builds(Dedup, names, ttls, bodies)
manys = st.builds(
    Many,
    st.sampled_from(["shop", "bank"]),
    st.lists(st.sampled_from(["a", "b", "c"]), max_size=5),
    ttls,
)
newers = st.builds(Newer, names, versions, ties)
leaves: st.SearchStrategy[Step] = st.one_of(
    dedups,
    manys,
    newers,
    st.builds(Prune, limits),
    st.builds(Advance, amounts),
    st.builds(MarkHere, st.integers(0, 3), results),
)


def grown(inner: st.SearchStrategy[Step]) -> st.SearchStrategy[Step]:
    """Steps around other steps."""
    steps = st.lists(inner, max_size=3)
    endings: st.SearchStrategy[Ending] = st.sampled_from(["result", "nothing", "error"])
    return st.one_of(
        st.builds(Nested, steps, st.booleans()),
        st.builds(OnceHere, names, ttls, bodies, steps, endings, results),
    )


steps = st.recursive(leaves, grown, max_leaves=6)
programs = st.lists(st.one_of(steps, grown(leaves)), min_size=1, max_size=4)
