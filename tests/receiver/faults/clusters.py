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

from tests.support.processes import until
from tests.support.servers.keeper import AWAY
from tests.support.servers.postgresql import Postgres, find, origins, url_at
from tests.support.servers.running import Missing, running


@dataclass(frozen=True, slots=True)
class Returning(Postgres):
    """The same programs; the server is started again when it ends."""

    comes_back = True


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
    with running(Returning(found.programs, found.bundle)) as started:
        yield Cluster(url_at(started.place), started.place.folder)
