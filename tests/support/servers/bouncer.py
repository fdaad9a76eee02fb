"""Finds PgBouncer and runs it in transaction mode in front of a PostgreSQL."""

import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from .accounts import hand_over, reachable, unprivileged
from .databases import moved
from .installing import from_debian
from .running import LOOPBACK, Missing, Place, running

PROGRAM = "DULY_TEST_PGBOUNCER"  # path of the program
GIVEN = "DULY_TEST_PGBOUNCER_URL"  # a running one, in front of the given PostgreSQL
ABSENT = "DULY_TEST_PGBOUNCER_MISSING"  # why there is none: found out once for the whole run

CONFIGURATION = """\
[databases]
* = {upstream}

[pgbouncer]
pool_mode = transaction
listen_addr = {host}
listen_port = {port}
unix_socket_dir =
auth_type = any
ignore_startup_parameters = extra_float_digits
max_client_conn = 400
"""


@dataclass(frozen=True, slots=True)
class PgBouncer:
    """The program, and the URL of the PostgreSQL behind it."""

    program: Path
    admin_url: str

    name = "pgbouncer"
    stop_signal = signal.SIGTERM  # at once; SIGINT would wait for the clients
    comes_back = False

    def commands(self, place: Place) -> list[list[str]]:
        """Write the configuration; any database name is passed on."""
        path = place.folder / "pgbouncer.ini"
        path.touch(mode=0o600)  # it may hold the password of a given server
        hand_over(path, place.account)
        path.write_text(
            CONFIGURATION.format(upstream=_upstream(self.admin_url), host=LOOPBACK, port=place.port)
        )
        return [[str(self.program), str(path)]]

    def answers(self, place: Place) -> bool:
        """Whether what listens at the port leads to our PostgreSQL."""
        try:
            return _identity(moved(self.admin_url, LOOPBACK, place.port)) == _identity(
                self.admin_url
            )
        except psycopg.OperationalError:
            return False


@contextmanager
def pgbouncer(admin_url: str) -> Iterator[str | Missing]:
    """Yield the maintenance database's URL through PgBouncer, or why there is no PgBouncer."""
    given = os.environ.get(GIVEN)
    if given:
        yield given
        return
    with pgbouncer_of(admin_url) as started:
        yield started


@contextmanager
def pgbouncer_of(admin_url: str) -> Iterator[str | Missing]:
    """The same, started for this server alone: one that is given leads to another."""
    absent = os.environ.get(ABSENT)
    program = Missing("pgbouncer", absent) if absent else find(os.environ)
    if isinstance(program, Missing):
        yield program
        return
    with running(PgBouncer(program, admin_url)) as started:
        yield moved(admin_url, LOOPBACK, started.place.port)


def find(environment: Mapping[str, str]) -> Path | Missing:
    """The program: as told, on PATH or where daemons lie, else from Debian."""
    told = environment.get(PROGRAM)
    if told:
        return Path(told) if os.access(told, os.X_OK) else Missing("pgbouncer", f"no {told}")
    found = _on_machine(environment)
    if found is not None:
        return found
    missing = from_debian("pgbouncer")
    if missing is not None:
        return Missing("pgbouncer", missing.reason)
    return _on_machine(environment) or Missing("pgbouncer", "installed, but not found")


def _on_machine(environment: Mapping[str, str]) -> Path | None:
    # A plain user's PATH often leaves the daemons' folders out.
    places = [environment.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]
    found = shutil.which("pgbouncer", path=os.pathsep.join(places))
    if found is None or not reachable(Path(found).resolve(), unprivileged()):
        return None
    return Path(found)


def _upstream(admin_url: str) -> str:
    """The connection string of every database; its own name goes through as it came."""
    known = conninfo_to_dict(admin_url)
    wanted = {name: known.get(name) for name in ("host", "port", "user", "password")}
    return " ".join(f"{name}='{_quoted(value)}'" for name, value in wanted.items() if value)


def _quoted(value: object) -> str:
    return str(value).replace("'", "''")


def _identity(url: str) -> object:
    """What tells one running PostgreSQL from another."""
    with psycopg.connect(url, connect_timeout=2) as connection:
        query = "select system_identifier, pg_postmaster_start_time() from pg_control_system()"
        return connection.execute(query).fetchone()
