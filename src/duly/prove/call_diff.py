"""The calls of a run, and how they differ from those of the single run."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.prove.calls import effective_calls

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from duly.prove.calls import Call

Path = tuple[str, ...]
Origin = tuple[str, str, str]
HIDDEN = "…"


class CallDifference(NamedTuple):
    """A call that was made more or less often than in the single run."""

    call: Call
    expected: int
    actual: int
    # What the single run left at its address instead.
    instead: Call | None = None


class CallMasks:
    """What is not compared of calls, because it differs from one single run to the next."""

    def __init__(self, one: Sequence[Call], others: Sequence[Sequence[Call]]) -> None:
        first = set(by_origin(one))
        # An address that is a new one each time is compared by its host alone.
        self._hosts_only = any(first != set(by_origin(other)) for other in others)
        self._hidden: dict[Origin, set[Path]] = defaultdict(set)
        # One of each, for the report.
        known = by_origin(one, hosts=self._hosts_only)
        self._calls = {origin: calls[0] for origin, calls in known.items()}
        for other in others:
            self._learn(one, other)

    def _learn(self, one: Sequence[Call], other: Sequence[Call]) -> None:
        second = by_origin(other, hosts=self._hosts_only)
        for origin, calls in by_origin(one, hosts=self._hosts_only).items():
            for here, there in zip(calls, second.get(origin, []), strict=False):
                told, again = dict(leaves(here.content)), dict(leaves(there.content))
                self._hidden[origin] |= {
                    path for path in {*told, *again} if told.get(path) != again.get(path)
                }

    def describe_hidden(self) -> list[str]:
        """What was not compared, as text for the report."""
        found = {
            f"{'.'.join(path)} of {self._calls[origin].summary}"
            for origin, paths in self._hidden.items()
            for path in paths
        }
        if self._hosts_only:
            found |= {f"the address of {call.summary}" for call in self._calls.values()}
        return sorted(found)

    def first_difference(
        self, expected: Sequence[Call], actual: Sequence[Call], needed: Sequence[Call] | None = None
    ) -> CallDifference | None:
        """The first call that was not made as often as in the single run.

        A call of that run that is not ``needed`` may be missing; all are needed unless given.
        """
        known: dict[Any, Call] = {}
        good, bad = self._count_calls(expected, known), self._count_calls(actual, known)
        least = good if needed is None else self._count_calls(needed, known)
        good |= least
        missing = [known[name] for name in least - bad]
        for name in [*(bad - good), *(least - bad)]:
            call = known[name]
            there = [other for other in missing if other.sets and other.url == call.url]
            instead = there[0] if call.sets and bad[name] and there else None
            return CallDifference(call, good[name], bad[name], instead)
        return None

    def _count_calls(self, calls: Sequence[Call], known: dict[Any, Call]) -> Counter[Any]:
        found: Counter[Any] = Counter()
        for call in effective_calls(calls):
            name = self._canonical(call)
            known.setdefault(name, call)
            found[name] += 1
        return found

    def _canonical(self, call: Call) -> Any:
        origin = origin_of_call(call, hosts=self._hosts_only)
        hidden = self._hidden.get(origin, set())
        content = tuple(
            (path, HIDDEN if path in hidden else value) for path, value in leaves(call.content)
        )
        return origin, content


def by_origin(calls: Iterable[Call], *, hosts: bool = False) -> dict[Origin, list[Call]]:
    """Calls by where they go, as they were made."""
    found: dict[Origin, list[Call]] = defaultdict(list)
    for call in effective_calls(calls):
        found[origin_of_call(call, hosts=hosts)].append(call)
    return dict(found)


def origin_of_call(call: Call, *, hosts: bool) -> Origin:
    """Where a call goes."""
    medium, method, place = call.origin
    return medium, method, place.partition("/")[0] if hosts else place


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value of a document with the way to it."""
    if isinstance(value, dict):
        for name in sorted(value):
            yield from leaves(value[name], (*path, str(name)))
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from leaves(one, (*path, str(number)))
    else:
        yield path, value
