"""Runs the tests on this interpreter, then on others of the machine: the newest and the oldest.

`make test` starts it inside the servers, so that all interpreters share them. Each newer Python
gets an environment of its own, `.venv-3.12` and so on, kept until pyproject.toml changes. There
the tests marked slow are left out: they try servers and processes, not the language.

Of the newer ones only the newest is tried: what breaks in between breaks there, too. So that the
whole stays short, the two share the work: this one runs what is promised on SQLite and PostgreSQL,
the newest what is promised on memory:, which is SQLite without its syncs. Where there is no newer
one, or where it is told what to run, this one runs all of it.

**The oldest.** A patch release may match a pattern or end a task differently, and a newcomer has
the one of their system: Debian 12 has 3.11.2. So the oldest release that the machine has, from
3.11.0 on, runs what depends on the language: `QUICK`, which `make test-quick` runs here alone.

**The proofs.** `tests/prove` runs in a pytest of its own, on this interpreter, after everything
else: a proof forks the process it is in, and in one that has tried Django and everything else it
would prove another application. tests/conftest.py keeps the two apart in any run that has both.

**The second look.** The suite kills real processes and waits for real servers. On two busy cores
one test in ten thousand then finds its process starved, and that must not cost a whole submission.
So where at most three tests failed, they run once more, alone and one after the other. A failure
that is still there fails the run; so do four. If all pass, the run has passed, and its last lines
name each of them: UNSTEADY, mend it. Nobody may overlook that: a test that needs luck is a bug.

What follows on the command line goes to pytest, on every interpreter. DULY_TEST_PYTHONS chooses
other interpreters: "3.12" or "3.12,3.13" names newer ones, "3.11.2" the oldest, "all" takes every
one, "main" none. With --quick alone on the command line, only `QUICK` runs, and only here.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.failing import WRITTEN, written
from tests.support.interpreters import (
    ROOT,
    Interpreter,
    Version,
    allowed,
    ask,
    candidates,
    environment_for,
    newer,
    oldest,
)
from tests.support.servers.commands import run

PROVING = ROOT / "tests" / "prove"
PASSED, FAILED, NOTHING = "passed", "FAILED", "found no tests"
NO_TESTS = 5
ANSWERS = {0: PASSED, 1: FAILED, NO_TESTS: NOTHING}  # pytest's exit codes that tell about the tests
LIMIT = "DULY_TEST_PYTHONS"
# Which half of the promises an interpreter runs; see tests/conftest.py.
PART = "DULY_TEST_PART"
STORED, IN_MEMORY = "stored", "memory"
MOST_AGAIN = 3  # failures that may be bad luck; more are none
MOST_WORKERS = 5  # each worker keeps connections; the server has a few hundred for all
PROOF_WORKERS = 3  # a proof starts processes of its own
OPTIONS_WITH_VALUE = {"-c", "-k", "-m", "-n", "-o", "-p", "-r", "-W"}

# What may differ from one release of Python to the next, one test of each store, and one of the
# proofs: it must hold for every user, and ends within two minutes on two cores.
QUICK = (
    "tests/cli/test_command_line.py",
    "tests/repo/test_everywhere.py",
    "tests/core/test_failures.py",
    "tests/jobs/test_handlers.py",
    "tests/core/test_ids.py",
    "tests/repo/test_importing.py",
    "tests/core/test_core.py",
    "tests/repo/test_makefile.py",
    "tests/repo/test_patterns.py",
    "tests/stores/test_placeholders.py",
    "tests/core/test_redaction.py",
    "tests/inbox/test_route.py",
    "tests/stores/test_statements.py",
    "tests/app/test_sync_and_async.py",
    "tests/jobs/test_tx.py",
    "tests/typing/test_typing.py",
    "tests/webhooks/test_forgeries.py",
    "tests/webhooks/test_reading.py",
    "tests/webhooks/test_schemes.py",
    "tests/webhooks/test_secrets.py",
    "tests/webhooks/test_signing.py",
    "tests/webhooks/test_vectors.py",
    "tests/receiver/test_new_event.py",
    "tests/receiver/test_inline.py",
    "tests/worker/test_quarantine_fairness.py",
    "tests/prove/test_sqlite.py",
)


@dataclass(frozen=True, slots=True)
class Run:
    """What one pytest is started with."""

    options: Sequence[str]
    workers: int
    part: str | None = None
    what: str = "tests"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one interpreter did."""

    version: Version
    verdict: str
    seconds: float
    unsteady: tuple[str, ...] = ()
    what: str = "tests"

    def __str__(self) -> str:
        name = ".".join(map(str, self.version))
        return f"python {name:<8} {self.what:<7} {self.verdict} in {self.seconds:.0f} s"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for, the proofs apart from everything else."""

    tests: list[str] | None
    proofs: list[str] | None


def split_proofs(options: Sequence[str]) -> Asked:
    """The options of the two runs: each names its own files, and `None` stands for no run."""
    named = [
        word
        for before, word in zip(["", *options], options, strict=False)
        if word and before not in OPTIONS_WITH_VALUE and (ROOT / word.partition("::")[0]).exists()
    ]
    others = [word for word in options if word not in named]
    if not named:
        return Asked(others, ["tests/prove", *others])
    inside = [word for word in named if within(word, PROVING)]
    around = any(PROVING.is_relative_to(path_of(word)) for word in named)
    proofs = ["tests/prove"] if around else inside
    tests = [word for word in named if word not in inside]
    return Asked([*tests, *others] if tests else None, [*proofs, *others] if proofs else None)


def path_of(word: str) -> Path:
    """The file or folder that a word of the command line names."""
    return (ROOT / word.partition("::")[0]).resolve()


def within(word: str, folder: Path) -> bool:
    """Whether a word of the command line names something below a folder, or the folder."""
    return path_of(word).is_relative_to(folder)


def run_pytest(python: Path, version: Version, asked: Run) -> Outcome:
    """Run the suite once; the caller's options come last and so have the last word."""
    begun = time.monotonic()
    # Tests of one server stay together, if they say so.
    together = ["-n", str(asked.workers), "--dist", "loadgroup"]
    environment = {name: value for name, value in os.environ.items() if name != PART}
    if asked.part is not None:
        environment[PART] = asked.part
    with tempfile.TemporaryDirectory() as folder:
        environment[WRITTEN] = f"{folder}/failed"
        command = [
            str(python),
            "-m",
            "pytest",
            "-p",
            "tests.support.failing",
            *together,
            *asked.options,
        ]
        code = run(command, environment)
        failed = written(Path(folder, "failed"))
    if code not in ANSWERS:
        # Interrupted, or a mistake on the command line: no other run would have a better answer.
        sys.exit(code)
    unsteady = second_look(python, failed) if ANSWERS[code] == FAILED else ()
    verdict = PASSED if unsteady else ANSWERS[code]
    return Outcome(version, verdict, time.monotonic() - begun, unsteady, asked.what)


def workers() -> int:
    """How many tests run at a time: many of them wait rather than compute."""
    return min(2 * (os.cpu_count() or 1) + 1, MOST_WORKERS)


def workers_elsewhere() -> int:
    """The same elsewhere, where tests compute, and each worker has to find all of them."""
    return min(os.cpu_count() or 1, MOST_WORKERS)


def second_look(python: Path, failed: Sequence[str]) -> tuple[str, ...]:
    """Run the few that failed once more, alone; return them if now they all pass."""
    if not 1 <= len(failed) <= MOST_AGAIN:
        return ()
    print("everywhere: a second look, alone, at", *failed, sep="\n  ", flush=True)
    # Without the caller's options: those say what to run, and that is known by now.
    code = run([str(python), "-m", "pytest", "-n", "0", *failed])
    return tuple(failed) if code == 0 else ()


def run_other(interpreter: Interpreter, environment: Callable[[], Path], asked: Run) -> Outcome:
    """Run part of the tests on another interpreter, in its own environment."""
    begun = time.monotonic()
    try:
        python = environment()
    except subprocess.CalledProcessError as failure:
        verdict = f"{FAILED} (no environment: exit {failure.returncode})"
        return Outcome(interpreter.version, verdict, time.monotonic() - begun, what=asked.what)
    print(f"everywhere: python {interpreter.release}", flush=True)
    return run_pytest(python, interpreter.version, asked)


def warnings(outcomes: Iterable[Outcome]) -> list[str]:
    """What the last lines of the run say about tests that passed at the second look only."""
    nodes = [node for outcome in outcomes for node in outcome.unsteady]
    return [f"UNSTEADY: {node} failed once and passed alone: mend it" for node in nodes]


def run_here(asked: Asked, part: str | None) -> list[Outcome]:
    """Everything that is asked for, on this interpreter: first the tests, then the proofs."""
    here: Version = sys.version_info[:3]
    runs = []
    if asked.tests is not None:
        runs.append(Run(asked.tests, workers(), part))
    if asked.proofs is not None:
        runs.append(Run(asked.proofs, PROOF_WORKERS, what="proofs"))
    return [run_pytest(Path(sys.executable), here, each) for each in runs]


def run_all(options: Sequence[str], limit: str) -> list[Outcome]:
    """The tests here and elsewhere; the environments are made while the tests here still run."""
    here: Version = sys.version_info[:3]
    asked = split_proofs(options)
    found = [answer for path in candidates(os.environ) if (answer := ask(path))]
    later = allowed(newer(found, here), limit)
    earlier = oldest(found, here, limit)
    shared = bool(later) and not options and not limit
    if asked.tests is None:  # proofs try processes and servers, not the language
        later = earlier = []
    with ThreadPoolExecutor(max_workers=1) as beside:
        made = [beside.submit(environment_for, each, each.series) for each in later]
        made += [beside.submit(environment_for, each, each.release) for each in earlier]
        outcomes = run_here(asked, STORED if shared else None)
        count = workers_elsewhere()
        runs = [Run(asked.tests or [], count, IN_MEMORY if shared else None)] * len(later)
        runs += [Run((asked.tests or []) if options else quick_tests(), count)] * len(earlier)
        for interpreter, python, each in zip([*later, *earlier], made, runs, strict=True):
            part_of = replace(each, options=["-m", "not slow", *each.options])
            outcomes.append(run_other(interpreter, python.result, part_of))
    return outcomes


def quick_tests() -> list[str]:
    """`QUICK` without the proofs."""
    return split_proofs(QUICK).tests or []


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """0 if all that ran has passed; a run without tests counts only where there is no other."""
    verdicts = {outcome.verdict for outcome in outcomes}
    if verdicts == {NOTHING}:
        return NO_TESTS
    return int(not verdicts <= {PASSED, NOTHING})


def main(options: Sequence[str]) -> int:
    quick = list(options) == ["--quick"]
    outcomes = (
        run_here(split_proofs(QUICK), None)
        if quick
        else run_all(options, os.environ.get(LIMIT, ""))
    )
    print("", *outcomes, *warnings(outcomes), sep="\n", flush=True)
    return exit_code(outcomes)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
