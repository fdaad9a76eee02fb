"""Runs the tests on this interpreter, then on the newer Pythons of the machine.

`make test` starts it inside the servers, so that all interpreters share them. Each newer Python
gets an environment of its own, `.venv-3.12` and so on, kept until pyproject.toml changes. There
the tests marked slow are left out: they try servers and processes, not the language.

Of the newer ones only the newest is tried: what breaks in between breaks there, too. So that the
whole stays short, the two share the work: this one runs what is promised on SQLite and PostgreSQL,
the newest what is promised on memory:, which is SQLite without its syncs. Where there is no newer
one, or where it is told what to run, this one runs all of it.

**The second look.** The suite kills real processes and waits for real servers. On two busy cores
one test in ten thousand then finds its process starved, and that must not cost a whole submission.
So where at most three tests failed, they run once more, alone and one after the other. A failure
that is still there fails the run; so do four. If all pass, the run has passed, and its last lines
name each of them: UNSTEADY, mend it. Nobody may overlook that: a test that needs luck is a bug.

What follows on the command line goes to pytest, on every interpreter. DULY_TEST_PYTHONS chooses
other interpreters: "3.12" or "3.12,3.13" names newer ones, "all" takes every one, "main" none.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.failing import WRITTEN, written
from tests.servers.commands import run

ROOT = Path(__file__).parents[1]
PASSED, FAILED = "passed", "FAILED"
ANSWERS = {0: PASSED, 1: FAILED}  # pytest's exit codes that tell about the tests
LIMIT = "DULY_TEST_PYTHONS"
# Which half of the promises an interpreter runs; see tests/conftest.py.
PART = "DULY_TEST_PART"
STORED, IN_MEMORY = "stored", "memory"
MOST_AGAIN = 3  # failures that may be bad luck; more are none
MOST_WORKERS = 5  # each worker keeps connections; the server has a few hundred for all

# Prints the version of a finished release that can make environments, and nothing otherwise.
PROBE = """\
import ensurepip, sys, venv
if sys.version_info.releaselevel == "final" and sys.implementation.name == "cpython":
    print(*sys.version_info[:3])
"""

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that answered."""

    version: Version
    program: Path

    @property
    def series(self) -> str:
        """The version as environments are named, as in 3.12."""
        return f"{self.version[0]}.{self.version[1]}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one interpreter did."""

    version: Version
    verdict: str
    seconds: float
    unsteady: tuple[str, ...] = ()

    def __str__(self) -> str:
        name = ".".join(map(str, self.version))
        return f"python {name:<8} {self.verdict} in {self.seconds:.0f} s"


def candidates(environment: Mapping[str, str]) -> list[Path]:
    """Every file that may be a Python: on PATH, pyenv's, uv's, the system's."""
    home = Path.home()
    pyenv = Path(environment.get("PYENV_ROOT") or home / ".pyenv")
    folders = [Path(entry) for entry in environment.get("PATH", "").split(os.pathsep) if entry]
    folders += sorted(pyenv.glob("versions/*/bin"))
    folders += sorted(home.glob(".local/share/uv/python/*/bin"))
    folders += [Path("/usr/bin"), Path("/usr/local/bin")]
    found = [path for folder in folders for path in sorted(folder.glob("python3.[0-9]*"))]
    return list(dict.fromkeys(path for path in found if path.name[8:].isdigit()))


def ask(program: Path) -> Interpreter | None:
    """Learn the version by running it: a shim may stand for nothing."""
    try:
        answer = subprocess.run(
            [program, "-I", "-c", PROBE],
            check=True,
            capture_output=True,
            text=True,
            timeout=30,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    version = tuple(map(int, answer.stdout.split()))
    return Interpreter(version, program) if version else None


def newer(found: Iterable[Interpreter], than: Version) -> list[Interpreter]:
    """One interpreter for each later series, the latest of it, oldest series first."""
    chosen: dict[Version, Interpreter] = {}
    for interpreter in sorted(found, key=lambda each: each.version):
        if interpreter.version[:2] > than[:2]:
            chosen[interpreter.version[:2]] = interpreter
    return list(chosen.values())


def allowed(interpreters: Iterable[Interpreter], limit: str) -> list[Interpreter]:
    """Those the limit names; the newest if it names none."""
    names = [name.strip() for name in limit.split(",") if name.strip()]
    found = list(interpreters)
    if not names:
        return found[-1:]
    return [each for each in found if "all" in names or each.series in names]


def environment_for(interpreter: Interpreter) -> Path:
    """Its environment's Python, installed anew if pyproject.toml is younger."""
    folder = ROOT / f".venv-{interpreter.series}"
    python, stamp = folder / "bin" / "python", folder / ".installed"
    project = ROOT / "pyproject.toml"
    if stamp.exists() and stamp.stat().st_mtime >= project.stat().st_mtime:
        return python
    print(f"everywhere: making {folder.name}", flush=True)
    subprocess.run([interpreter.program, "-m", "venv", "--clear", folder], check=True)
    pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    subprocess.run([*pip, "--editable", f"{ROOT}[all,dev]"], check=True)
    stamp.touch()
    return python


def run_pytest(python: Path, version: Version, options: Sequence[str], part: str | None) -> Outcome:
    """Run the suite once; the caller's options come last and so have the last word."""
    workers = min(2 * (os.cpu_count() or 1) + 1, MOST_WORKERS)  # many wait rather than compute
    begun = time.monotonic()
    together = ["-n", str(workers), "--dist", "loadgroup"]  # tests of one server, if they say so
    if part is not None:
        os.environ[PART] = part
    with tempfile.TemporaryDirectory() as folder:
        os.environ[WRITTEN] = f"{folder}/failed"
        code = run([str(python), "-m", "pytest", "-p", "tests.failing", *together, *options])
        failed = written(Path(folder, "failed"))
    if code not in ANSWERS:
        # Interrupted, or nothing to run: the other interpreters would have no better answer.
        sys.exit(code)
    unsteady = second_look(python, failed) if ANSWERS[code] == FAILED else ()
    verdict = PASSED if unsteady else ANSWERS[code]
    return Outcome(version, verdict, time.monotonic() - begun, unsteady)


def second_look(python: Path, failed: Sequence[str]) -> tuple[str, ...]:
    """Run the few that failed once more, alone; return them if now they all pass."""
    if not 1 <= len(failed) <= MOST_AGAIN:
        return ()
    print("everywhere: a second look, alone, at", *failed, sep="\n  ", flush=True)
    # Without the caller's options: those say what to run, and that is known by now.
    code = run([str(python), "-m", "pytest", "-n", "0", *failed])
    return tuple(failed) if code == 0 else ()


def run_newer(
    interpreter: Interpreter,
    environment: Callable[[], Path],
    options: Sequence[str],
    part: str | None,
) -> Outcome:
    begun = time.monotonic()
    try:
        python = environment()
    except subprocess.CalledProcessError as failure:
        verdict = f"{FAILED} (no environment: exit {failure.returncode})"
        return Outcome(interpreter.version, verdict, time.monotonic() - begun)
    print(f"everywhere: python {interpreter.series}", flush=True)
    return run_pytest(python, interpreter.version, ["-m", "not slow", *options], part)


def warnings(outcomes: Iterable[Outcome]) -> list[str]:
    """What the last lines of the run say about tests that passed at the second look only."""
    nodes = [node for outcome in outcomes for node in outcome.unsteady]
    return [f"UNSTEADY: {node} failed once and passed alone: mend it" for node in nodes]


def main(options: Sequence[str]) -> int:
    here: Version = sys.version_info[:3]
    limit = os.environ.get(LIMIT, "")
    answers = [answer for path in candidates(os.environ) if (answer := ask(path))]
    wanted = allowed(newer(answers, here), limit)
    shared = bool(wanted) and not options and not limit
    with ThreadPoolExecutor(max_workers=1) as beside:  # while the tests here still run
        made = [beside.submit(environment_for, interpreter) for interpreter in wanted]
        outcomes = [run_pytest(Path(sys.executable), here, options, STORED if shared else None)]
        for interpreter, python in zip(wanted, made, strict=True):
            part = IN_MEMORY if shared else None
            outcomes.append(run_newer(interpreter, python.result, options, part))
    print("", *outcomes, *warnings(outcomes), sep="\n", flush=True)
    return int(any(outcome.verdict != PASSED for outcome in outcomes))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
