"""The servers under the tests are found in order, lend out databases, and leave nothing behind."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import ClientCursor

from tests.support.servers import (
    Missing,
    create_database,
    database,
    drop_database,
    template_database,
)
from tests.support.servers.bouncer import find as find_bouncer
from tests.support.servers.bouncer import pgbouncer as any_pgbouncer
from tests.support.servers.databases import database_of, on_database, through
from tests.support.servers.memory import SHARED, roomy, temporary_folder
from tests.support.servers.postgresql import FIXED_PLACES, Postgres, origins, search_order
from tests.support.servers.postgresql import postgres as any_postgres
from tests.support.servers.running import StartFailed, start

ROOT = Path(__file__).parents[2]
SOON = 20.0  # seconds


@pytest.fixture(scope="module")
def admin_url() -> Iterator[str]:
    with any_postgres() as url:
        yield url


@pytest.fixture(scope="module")
def bouncer_url(admin_url: str) -> Iterator[str]:
    with any_pgbouncer(admin_url) as found:
        if isinstance(found, Missing):
            pytest.skip(str(found))
        yield found


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder the servers' account can go to, with a short path; pytest's own is neither."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def test_the_machine_is_asked_before_the_wheel_and_the_wheel_before_debian() -> None:
    assert origins({}) == ("machine", "wheel", "debian")


def test_one_origin_can_be_forced() -> None:
    assert origins({"DULY_TEST_POSTGRES_FROM": "wheel"}) == ("wheel",)


def test_an_unknown_origin_is_refused() -> None:
    with pytest.raises(ValueError, match="machine, wheel, debian"):
        origins({"DULY_TEST_POSTGRES_FROM": "source"})


def test_path_comes_first_then_pg_config_then_packages_newest_first() -> None:
    installed = [Path(f"/usr/lib/postgresql/{version}/bin") for version in (9, 18, 14)]
    order = search_order("/opt/a:/opt/b", Path("/opt/configured"), installed)
    packages = [Path(f"/usr/lib/postgresql/{version}/bin") for version in (18, 14, 9)]
    assert order == [
        Path("/opt/a"),
        Path("/opt/b"),
        Path("/opt/configured"),
        *packages,
        *FIXED_PLACES,
    ]


def test_a_folder_named_twice_is_searched_once() -> None:
    twice = Path("/usr/lib/postgresql/15/bin")
    assert search_order(str(twice), twice, [twice]) == [twice, *FIXED_PLACES]


def test_a_missing_program_says_why() -> None:
    found = find_bouncer({"DULY_TEST_PGBOUNCER": "/nowhere/pgbouncer"})
    assert found == Missing("pgbouncer", "no /nowhere/pgbouncer")
    assert str(found) == "capability missing: pgbouncer (no /nowhere/pgbouncer)"


def test_the_way_through_a_bouncer_keeps_user_and_database() -> None:
    bouncer = "postgresql://postgres@127.0.0.1:6432/postgres"
    direct = "postgresql://ann:secret@db.example:5432/orders"
    assert through(bouncer, direct) == "postgresql://ann:secret@127.0.0.1:6432/orders"


def test_a_clone_has_what_its_template_has_and_is_dropped(admin_url: str) -> None:
    with template_database(admin_url, build_orders) as template:
        url = create_database(admin_url, template)
        with psycopg.connect(url) as connection:
            assert connection.execute("select name from orders").fetchall() == [("first",)]
        drop_database(admin_url, url)
        assert not exists(admin_url, database_of(url))
    assert not exists(admin_url, template)


def test_a_database_is_dropped_under_a_client_that_forgot_to_leave(admin_url: str) -> None:
    with database(admin_url) as url:
        forgotten = psycopg.connect(url)
    assert not exists(admin_url, database_of(url))
    with pytest.raises(psycopg.OperationalError):
        forgotten.execute("select 1")
    forgotten.close()


def test_the_server_keeps_what_it_acknowledges(admin_url: str) -> None:
    with psycopg.connect(admin_url) as connection:
        for setting in ("fsync", "synchronous_commit"):
            assert connection.execute(f"show {setting}").fetchone() == ("on",)


def test_pgbouncer_pools_by_transaction_and_leads_to_any_database(
    admin_url: str, bouncer_url: str
) -> None:
    console = on_database(bouncer_url, "pgbouncer")
    with psycopg.connect(console, autocommit=True, cursor_factory=ClientCursor) as connection:
        settings = {row[0]: row[1] for row in connection.execute("show config")}
    assert settings["pool_mode"] == "transaction"
    with database(admin_url) as url, psycopg.connect(through(bouncer_url, url)) as connection:
        row = connection.execute("select current_database()").fetchone()
        assert row == (database_of(url),)


def test_a_server_that_cannot_start_shows_its_log_and_leaves_no_folder(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = open_folder / "initdb"
    broken.write_text("#!/bin/sh\necho the disk is made of cheese\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(open_folder))
    with pytest.raises(StartFailed, match="made of cheese"):
        start(Postgres(open_folder))
    assert list(open_folder.iterdir()) == [broken]


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_however_the_launcher_ends_no_server_and_no_folder_remain(ending: signal.Signals) -> None:
    with launcher("input()") as (process, server):
        data, postmaster = server
        os.kill(process.pid, ending)
        process.wait(SOON)
        wait_until_gone(run_folder(data), postmaster)


@pytest.mark.slow
def test_the_launcher_returns_the_exit_code_of_its_command() -> None:
    with launcher("raise SystemExit(7)") as (process, server):
        data, postmaster = server
        assert process.wait(SOON) == 7
        wait_until_gone(data.parent, postmaster)


def test_a_run_writes_to_memory_where_there_is_enough_and_its_user_says_nothing_else() -> None:
    if not roomy(SHARED):
        pytest.skip("capability missing: memory")
    with temporary_folder({}) as variables:
        folder = Path(variables["TMPDIR"])
        assert folder.parent == SHARED
        assert tempfile.gettempdir() == str(folder)
    assert not folder.exists()
    with temporary_folder({"TMPDIR": "/var/tmp"}) as variables:
        assert variables == {}


def test_a_machine_without_such_a_folder_is_not_roomy(tmp_path: Path) -> None:
    assert not roomy(tmp_path / "nowhere")


def build_orders(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("create table orders (name text)")
        connection.execute("insert into orders values ('first')")


def exists(admin_url: str, name: str) -> bool:
    with psycopg.connect(on_database(admin_url, "postgres")) as connection:
        query = "select 1 from pg_database where datname = %s"
        return connection.execute(query, [name]).fetchone() is not None


@contextmanager
def launcher(then: str) -> Iterator[tuple[subprocess.Popen[str], tuple[Path, int]]]:
    """Yield a launcher around a command that told where its server lives, and then does ``then``.

    It starts servers of its own, whatever this run was given. A command that outlives its
    launcher reads the end of its input when the test is over, and ends.
    """
    tell = (
        "import os, psycopg; url = os.environ['DULY_TEST_POSTGRES']; "
        "row = psycopg.connect(url).execute('show data_directory').fetchone(); "
        "print(row[0], flush=True); input(); "
    )
    command = [sys.executable, "-m", "tests.support.servers", "--memory", "postgres", "--"]
    ours = ("DULY_TEST", "TMPDIR")
    with subprocess.Popen(
        [*command, sys.executable, "-W", "ignore", "-c", tell + then],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith(ours)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            data = Path(process.stdout.readline().strip())
            postmaster = int((data / "postmaster.pid").read_text().split()[0])
            process.stdin.write("go on\n")
            process.stdin.flush()
            yield process, (data, postmaster)
        finally:
            process.kill()


def run_folder(data: Path) -> Path:
    """What must go with the run: its folder in memory, or else the server's own on disk."""
    return data.parents[1] if data.is_relative_to(SHARED) else data.parent


def wait_until_gone(folder: Path, process: int) -> None:
    deadline = time.monotonic() + SOON
    while (folder.exists() or alive(process)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not folder.exists()
    assert not alive(process)


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
