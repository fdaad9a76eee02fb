"""A PostgreSQL server in a folder that is given, which can be frozen."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from tests.support.servers.accounts import hand_over, unprivileged
from tests.support.servers.running import LOOPBACK, Place

from verification.power_loss.looking import Seen, read
from verification.power_loss.unproven import Unproven

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.support.servers.postgresql import Postgres

PATIENCE = 120.0
# Small segments and many checkpoints: more happens to the files in a second.
SETTINGS = {
    "listen_addresses": LOOPBACK,
    "max_connections": "60",
    "max_wal_size": "8MB",
    "min_wal_size": "2MB",
    "checkpoint_timeout": "30s",
    "shared_buffers": "16MB",
}
FOR_SAFETY: Mapping[str, str] = {"fsync": "on", "synchronous_commit": "on"}
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
INDEXES = (
    "SELECT bt_index_check(c.oid, true) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
    " JOIN pg_am a ON a.oid = c.relam JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE a.amname = 'btree' AND n.nspname = 'public'"
)


class NotServing(Unproven):
    """The server did not come up; the message ends with its log."""


def programs_for(found: Postgres, folder: Path) -> Path:
    """Where the programs are; they are copied into the folder if a server could not reach them."""
    [_, serve] = found.commands(Place(folder, 0, unprivileged()))
    return Path(serve[0]).parent


def make_cluster(programs: Path, folder: Path) -> None:
    """A new cluster; its pages have checksums, so that a torn one is noticed."""
    folder.mkdir()
    hand_over(folder, unprivileged())
    make = [str(programs / "initdb"), "--pgdata", str(folder / "data"), "--auth=trust"]
    make += ["--username=postgres", "--encoding=UTF8", "--locale=C"]
    make += ["--data-checksums", "--wal-segsize=1"]
    done = subprocess.run(make, check=False, capture_output=True, text=True, **started_as())
    if done.returncode:
        raise NotServing(f"initdb failed: {done.stderr.strip()}")


def started_as() -> dict[str, Any]:
    """How a server is started by root: as somebody else, and with nothing of ours around it."""
    account = unprivileged()
    options: dict[str, Any] = {"env": {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"}}
    options["cwd"] = "/"
    if account is not None:
        options |= {"user": account.uid, "group": account.gid, "extra_groups": []}
    return options


class Server:
    """A server that runs, and its database."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.log = log
        self.url = f"postgresql://postgres@{LOOPBACK}:{port}/postgres"

    def run(self, statements: Sequence[str]) -> None:
        """Run statements in one transaction."""
        with psycopg.connect(self.url) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def look(self) -> Seen:
        """What is in the database; its indexes are compared with its tables."""
        with psycopg.connect(self.url, autocommit=True) as connection:

            def ask(text: str) -> list[Any]:
                return connection.execute(text.encode()).fetchall()

            seen = Seen("ok")
            try:
                read(ask, {name for (name,) in ask(TABLES)}, seen)
                connection.execute("CREATE EXTENSION IF NOT EXISTS amcheck")
                ask(INDEXES)
            except psycopg.errors.FeatureNotSupported:  # a server without its contributed parts
                return seen
            except psycopg.Error as problem:
                return Seen(str(problem))
        return seen

    def version(self) -> str:
        """Of the server."""
        with psycopg.connect(self.url) as connection:
            number = connection.info.server_version
            return f"{number // 10000}.{number % 10000}"

    def answers(self) -> bool:
        """Whether it serves."""
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def pids(self) -> list[int]:
        """Of all its processes, the first of them first."""
        return [self.process.pid, *children(self.process.pid)]

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """No process of the server does anything until the block ends; what it holds stays."""
        stopped: list[int] = []
        try:
            self._stop(self.process.pid, stopped)
            # The first is stopped, so there will be no more of them.
            for child in children(self.process.pid):
                self._stop(child, stopped)
            yield
        finally:
            for pid in reversed(stopped):
                tell(pid, signal.SIGCONT)

    def _stop(self, pid: int, stopped: list[int]) -> None:
        """Stop a process; one that is inside of a sync stops when that is over."""
        tell(pid, signal.SIGSTOP)
        stopped.append(pid)
        deadline = time.monotonic() + PATIENCE
        while condition(pid) not in "TZ":
            if time.monotonic() > deadline:
                raise NotServing(f"process {pid} of the server does not stop")
            time.sleep(0.001)


def tell(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may have ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def condition(pid: int) -> str:
    """The letter by which the kernel says what a process does; Z if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def children(parent: int) -> list[int]:
    """The processes that a process started; sessions of their own do not hide them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == parent:
            found.append(int(path.parent.name))
    return found


def free_port() -> int:
    """A port that nobody uses."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def serving(
    programs: Path, folder: Path, log: Path, settings: Mapping[str, str] = FOR_SAFETY
) -> Iterator[Server]:
    """The cluster in a folder, served until the block ends."""
    command, port = [str(programs / "postgres"), "-D", str(folder / "data")], free_port()
    own = {"port": str(port), "unix_socket_directories": str(folder)}
    for setting, value in {**SETTINGS, **own, **settings}.items():
        command += ["-c", f"{setting}={value}"]
    with log.open("ab") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, **started_as())
    server = Server(process, port, log)
    try:
        deadline = time.monotonic() + PATIENCE
        while not server.answers():
            if process.poll() is not None or time.monotonic() > deadline:
                tail = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
                raise NotServing(f"PostgreSQL does not serve what is on the disk:\n{tail}")
            time.sleep(0.02)
        yield server
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)  # at once, and with a checkpoint
        process.wait()
