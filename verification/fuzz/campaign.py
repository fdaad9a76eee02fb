"""One scheme fuzzed: starts the engine, shows how it gets on, and says how it ended."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

CACHE = Path(".cache") / "fuzz"
EVERY = 10.0  # seconds between two lines of progress
EXECUTED = re.compile(r"^#(\d+)\s|^stat::number_of_executed_units:\s*(\d+)|^Done (\d+) runs")
COVERAGE = re.compile(r"cov: (\d+)")
WRITTEN = re.compile(r"Test unit written to (\S+)")


@dataclass(slots=True)
class Outcome:
    """How the fuzzing of one scheme ended."""

    name: str
    executions: int = 0
    coverage: int = 0
    seconds: float = 0.0
    crash: str | None = None
    code: int = 0

    @property
    def good(self) -> bool:
        """Whether it ended because its time or its runs were up."""
        return self.code == 0 and self.crash is None

    def __str__(self) -> str:
        verdict = "ok" if self.good else "CRASHED"
        return (
            f"fuzz: {self.name:<18} {self.executions:>10,} executions in {self.seconds:.0f} s, "
            f"coverage {self.coverage}: {verdict}"
        )

    def reproduction(self) -> str:
        """The one line that shows the crash again."""
        return f"{sys.executable} -m verification.fuzz {self.name} --input {self.crash}"


def fuzzed(name: str, seeds: list[bytes], *, runs: int | None, seconds: int | None) -> Outcome:
    """Fuzz one scheme in a process of its own."""
    home = CACHE / name
    corpus = home / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for place, seed in enumerate(seeds):
        (corpus / f"seed-{place:03}").write_bytes(seed)
    limits = [*([] if runs is None else [f"-runs={runs}"])]
    limits += [] if seconds is None else [f"-max_total_time={seconds}"]
    options = ["-max_len=4096", "-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1"]
    command = [sys.executable, "-u", "-m", "verification.fuzz.engine", name, *limits, *options]
    command += [f"-artifact_prefix={home}/", str(corpus)]
    outcome = Outcome(name)
    begun = time.monotonic()
    with subprocess.Popen(  # our own engine
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as engine:
        follow(outcome, engine.stdout or [], begun)
        outcome.code = engine.wait()
    outcome.seconds = time.monotonic() - begun
    return outcome


def follow(outcome: Outcome, lines: Iterable[str], begun: float) -> None:
    """Read what the engine prints: counts now and then, and everything once it has crashed."""
    shown = begun
    crashed = False
    for line in lines:
        counted = EXECUTED.match(line)
        if counted:
            outcome.executions = int(next(filter(None, counted.groups())))
        if covered := COVERAGE.search(line):
            outcome.coverage = int(covered[1])
        if written := WRITTEN.search(line):
            outcome.crash = written[1]
        crashed = crashed or "Uncaught Python exception" in line or "ERROR: libFuzzer" in line
        if crashed and not line.startswith("stat::"):
            print(line, end="", flush=True)
        elif time.monotonic() - shown > EVERY:
            shown = time.monotonic()
            print(f"fuzz: {outcome.name:<18} {outcome.executions:>10,} executions…", flush=True)
