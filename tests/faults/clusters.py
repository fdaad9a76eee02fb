"""A PostgreSQL server of a test's own that can be struck down, and stay away for a while."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tests.processes import until
from tests.servers.postgresql import Postgres, find, origins, url_at
from tests.servers.running import Missing, Place, running

AWAY = "away"
# Serves again whenever the server has ended, as an operating system's service manager does, and
# not before the file that says so is gone.
SUPERVISOR = """
ends=$1; away=$2; shift 2
trap 'kill -s $ends $server; wait $server; exit 0' $ends
while :; do
    while [ -e "$away" ]; do sleep 0.05; done
    "$@" & server=$!
    wait $server
    sleep 0.05
done
"""


@dataclass(frozen=True, slots=True)
class Supervised(Postgres):
    """The same programs; the server is started again when it ends."""

    def commands(self, place: Place) -> list[list[str]]:
        """Make a cluster, then serve it for as long as the supervisor lives."""
        [make, serve] = Postgres.commands(self, place)
        return [make, supervised(serve, place, self.stop_signal)]


def supervised(serve: list[str], place: Place, ends: signal.Signals) -> list[str]:
    """The command under a supervisor, which is told to end as the server itself would be."""
    name = ends.name.removeprefix("SIG")
    return ["/bin/sh", "-c", SUPERVISOR, "supervisor", name, str(place.folder / AWAY), *serve]


@dataclass(frozen=True)
class Cluster:
    """A server, and how to strike it down."""

    url: str
    folder: Path

    def strike(self) -> None:
        """End the server at once, in the middle of everything; it comes back by itself.

        The signal is what ``pg_ctl stop -m immediate`` sends.
        """
        pid = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGQUIT)
        until(lambda: not alive(pid) or None)

    @contextmanager
    def away(self) -> Iterator[None]:
        """No server, until the block ends."""
        (self.folder / AWAY).touch()
        self.strike()
        try:
            yield
        finally:
            (self.folder / AWAY).unlink()

    def back(self) -> float:
        """Wait until it answers; the moment at which it did."""
        until(self._answers)
        return time.monotonic()

    def _answers(self) -> bool | None:
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return None
        return True


def alive(pid: int) -> bool:
    """Whether the process is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter if it ends while it is read
        return False


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A server for one test."""
    found = find(origins(os.environ))
    if isinstance(found, Missing):
        pytest.skip(str(found))
    with running(Supervised(found.programs, found.bundle)) as started:
        yield Cluster(url_at(started.place), started.place.folder)
