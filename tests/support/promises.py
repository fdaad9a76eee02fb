"""What duly promises, by name, and who holds it to that: writes `tests/README.md`.

A test that keeps a promise is marked with its name, `@pytest.mark.promise("I8")`; a name that is
not in `PROMISES` ends the run before it begins. The page lists each promise with its tests, with
the flows of the crash matrix and the checks of the simulation that would find it broken, and with
the planted bugs that break it. A promise must have a test on each store, sync and async, in the
short form of the tests; an empty cell is an error, unless `WITHOUT` says why it is empty.

    python -m tests.support.promises            # write the page
    python -m tests.support.promises --check    # say whether it lags, or has an empty cell
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.interpreters import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PAGE = ROOT / "tests" / "README.md"
PROMISES = {
    "I1": "A 2xx that a sender has received means that its event is there after recovery.",
    "I2": "No effect is lost.",
    "I3": "No effect happens twice in one database.",
    "I4": "Nothing comes from nowhere: every row traces to a verified delivery or an enqueue.",
    "I5": "Duplicates are answered 2xx, and create no event, job or effect.",
    "I6": "Once faults stop, every accepted event reaches done or dead.",
    "I7": "A job or message has one state at a time, and moves along the table of states.",
    "I8": "A stale token changes no row and leaves no effect.",
    "I9": (
        "Attempts and rescues never exceed their limits; a job that kills its process ends dead,"
        " its neighbours do not."
    ),
    "I10": "Epochs only grow, and tokens never repeat.",
    "I11": "A message exists if and only if its transaction committed; a resend has the same id.",
    "I12": "No lock, transaction, connection or lease is leaked.",
    "I13": "Rejected input writes nothing.",
    "I14": "A conflict is never processed, and always recorded.",
    "one first": "Of all who claim a key, one is first, ever.",
    "one transaction": "The claim and the user's writes are one transaction: both or neither.",
    "power cut": "What was committed survives a power cut.",
    "machines": "Many processes on one database, on many machines where it is PostgreSQL.",
}
STORES, MODES = ("sqlite", "postgres", "memory"), ("sync", "async")
CELLS = tuple((store, mode) for store in STORES for mode in MODES)
FLOWS, CHECKS, BUGS = "crash matrix", "simulation", "planted bugs"
# Cells that are empty, and why.
WITHOUT: dict[tuple[str, object], str] = {
    **{("power cut", ("memory", mode)): "the README promises none" for mode in MODES},
    **{("machines", ("memory", mode)): "it is there for one process" for mode in MODES},
    ("power cut", FLOWS): "`make power` tries every state that a disk may have kept",
    ("power cut", CHECKS): "the simulation has no disk",
    ("I12", CHECKS): "the simulation has no connections to leak",
}
STORE_WORDS = {
    **dict.fromkeys(("sqlite", "sqlite3", "aiosqlite", "pysqlite"), "sqlite"),
    **dict.fromkeys(("postgres", "psycopg", "asyncpg"), "postgres"),
    "memory": "memory",
}
MODE_WORDS = {
    **dict.fromkeys(("async", "asgi", "await", "aiosqlite", "asyncpg"), "async"),
    **dict.fromkeys(("sync", "wsgi", "sqlite3", "pysqlite", "psycopg"), "sync"),
}
MARK = "mark.promise("
SIMULATION = ROOT / "verification" / "simulation" / "promises"


def promises_of(item: pytest.Item) -> list[str]:
    """The promises that a test is marked with; an unknown name is refused."""
    names = [name for mark in item.iter_markers("promise") for name in mark.args]
    for name in names:
        if name not in PROMISES:
            known = ", ".join(PROMISES)
            raise pytest.UsageError(f"{item.nodeid} keeps {name!r}, which is not one of: {known}")
    return list(dict.fromkeys(names))


def cell_of(item: pytest.Item) -> tuple[str | None, str | None]:
    """The store and the mode that a test tries, by its parameters and fixtures."""
    called = getattr(item, "callspec", None)
    words = re.split(r"[-_ ]", called.id) if called is not None else []
    values: Iterable[Any] = called.params.values() if called is not None else ()
    stores = [getattr(value, name, None) for value in values for name in ("store", "kind")]
    modes = [getattr(value, name, None) for value in values for name in ("colour", "mode")]
    fixtures = [word for name in getattr(item, "fixturenames", ()) for word in name.split("_")]
    return (
        known_word([*stores, *words, *fixtures], STORE_WORDS),
        # In a name such as sqlalchemy-async-session-psycopg the driver says less than `async`.
        "async" if "async" in words else known_word([*modes, *words], MODE_WORDS),
    )


def known_word(words: Iterable[object], known: Mapping[str, str]) -> str | None:
    """What the first word that is known stands for."""
    return next((known[word] for word in words if isinstance(word, str) and word in known), None)


@dataclass(slots=True)
class Kept:
    """Who holds duly to one promise."""

    tests: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    cells: set[tuple[str | None, str | None]] = field(default_factory=set)
    flows: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    bugs: list[str] = field(default_factory=list)


class Collector:
    """A plugin of pytest that looks at what would run."""

    def __init__(self) -> None:
        self.kept = {name: Kept() for name in PROMISES}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note each test under its promises."""
        for item in session.items:
            path, _, function = item.nodeid.partition("[")[0].partition("::")
            for name in promises_of(item):
                kept = self.kept[name]
                kept.cells.add(cell_of(item))
                if function not in kept.tests[path]:
                    kept.tests[path].append(function)


def marked_files() -> list[str]:
    """The files of tests that keep a promise."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(path.relative_to(ROOT)) for path in paths if MARK in path.read_text()]


def collect() -> dict[str, Kept]:
    """Each promise with its tests in the short form, its flows, checks and planted bugs."""
    for name in ("DULY_WIDE", "DULY_LONG", "DULY_TEST_PART"):
        os.environ.pop(name, None)
    os.chdir(ROOT)
    collector = Collector()
    said = io.StringIO()
    options = ["--collect-only", "-qq", "-n", "0", "-p", "no:randomly"]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = pytest.main([*options, *marked_files()], plugins=[collector])
    if code:
        sys.exit(said.getvalue())
    add_verification(collector.kept)
    return collector.kept


def add_verification(kept: dict[str, Kept]) -> None:
    """Note flows, checks and planted bugs."""
    from verification.crash_matrix.flows import FLOWS as flows
    from verification.mutation.shelf import shelf

    for flow in flows.values():
        for name in flow.promises:
            kept[name].flows.append(flow.name)
    for check, names in simulation_checks():
        for name in names:
            kept[name].checks.append(check)
    for bug in shelf():
        for name in bug.breaks:
            kept[name].bugs.append(bug.name)


def simulation_checks() -> Iterator[tuple[str, list[str]]]:
    """Each check of the simulation, and what it names: `broken("I8", …)`, or `I8:` at its head."""
    for path in sorted(SIMULATION.glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                named = [*head_of(ast.get_docstring(node) or ""), *broken_by(node)]
                found = [name for name in PROMISES if name in named]
                if found:
                    yield node.name, found


def head_of(docstring: str) -> list[str]:
    """The names before the colon of a docstring such as `I6, I7 and one first: …`."""
    head, colon, _ = docstring.partition(":")
    return re.split(r", | and ", head) if colon else []


def broken_by(function: ast.FunctionDef) -> Iterator[str]:
    """What a function may find broken."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "broken":
            for part in ast.walk(node.args[0]):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


def empty_cells(kept: Mapping[str, Kept]) -> list[str]:
    """What nobody tries, where nothing says why."""
    found = []
    for name, one in kept.items():
        lists = ((FLOWS, one.flows), (CHECKS, one.checks), (BUGS, one.bugs))
        empty = [cell for cell in CELLS if cell not in one.cells]
        empty_lists = [what for what, there in lists if not there]
        for cell in [*empty, *empty_lists]:
            if (name, cell) not in WITHOUT:
                what = f"no test on {cell[0]}, {cell[1]}" if isinstance(cell, tuple) else cell
                found.append(f"{name}: {what}: mark one, or say in WITHOUT why there is none")
    return found


def page_of(kept: Mapping[str, Kept]) -> str:
    """The page."""
    return HEAD + summary(kept) + "".join(section(name, one) for name, one in kept.items())


HEAD = """# Tests

`tests/` has the folders of `src/duly`: what keeps `duly.worker` right is in `tests/worker`. Beside
them, `support` is what tests are made of (servers, fork server, clocks, records), `docs` runs the
pages, `repo` looks after this repository, and `verification` tries the programs in
[verification](../verification/README.md), which break duly on purpose.

| marker | meaning |
|---|---|
| `promise("I8")` | keeps that promise; the names are below |
| `slow` | starts processes, or does thousands of operations: left out on the newer interpreters |
| `wide` | more of what `make test` shows already: runs in `make test-wide` |
| `long` | minutes of many processes: runs in `make test-full` |

This page is written by `python -m tests.support.promises` from the marks, and a test fails when it
lags. I1 to I14 are the invariants that every test of faults checks; the four below them are the
columns of [what is promised, per store](../README.md#guarantees-per-store). An empty cell
fails the build.

"""


def summary(kept: Mapping[str, Kept]) -> str:
    """One row for each promise."""
    heads = ["promise", *(f"{store} {mode}" for store, mode in CELLS)]
    lines = [row([*heads, "files", FLOWS, CHECKS, BUGS]), row(["---"] * (len(heads) + 4))]
    for name, one in kept.items():
        cells = ["yes" if cell in one.cells else "none" for cell in CELLS]
        counts = [len(part) or "none" for part in (one.tests, one.flows, one.checks, one.bugs)]
        lines.append(row([f"[{name}](#{anchor(name)})", *cells, *counts]))
    return "\n".join(lines) + "\n"


def section(name: str, one: Kept) -> str:
    """All about one promise."""
    lines = [f"\n## {name}\n", PROMISES[name], ""]
    for path, functions in sorted(one.tests.items()):
        short = path.removeprefix("tests/")
        lines.append(f"- [{short}]({short}): {', '.join(f'`{test}`' for test in functions)}")
    for store in STORES:
        if reasons := [WITHOUT[key] for mode in MODES if (key := (name, (store, mode))) in WITHOUT]:
            lines.append(f"- no test on {store}: {reasons[0]}")
    lines += [
        f"- {what}: {', '.join(there) or f'none; {WITHOUT[name, what]}'}"
        for what, there in (
            (FLOWS, one.flows),
            (CHECKS, one.checks),
            (BUGS, [f"[{bug}](../verification/mutation/{bug}.patch)" for bug in one.bugs]),
        )
        if there or (name, what) in WITHOUT
    ]
    return "\n".join(lines) + "\n"


def row(cells: Iterable[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


def main(arguments: list[str]) -> int:
    kept = collect()
    problems = empty_cells(kept)
    page = page_of(kept)
    if arguments == ["--check"]:
        if not PAGE.exists() or PAGE.read_text() != page:
            problems.append("tests/README.md lags: run python -m tests.support.promises")
    elif not problems:
        PAGE.write_text(page)
    print(*problems, sep="\n")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
