"""A storm finds its server, and strikes no other."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psycopg
import pytest

from duly.cli.main import main
from duly.demo.databases import PostgresDatabase, server_pid
from duly.demo.settings import SCHEMA, Settings

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


def database(url: str, folder: Path) -> PostgresDatabase:
    return PostgresDatabase(Settings(url, folder, 1, 100, None))


def test_a_server_is_found_where_the_driver_finds_it(own_postgres_url: str, tmp_path: Path) -> None:
    parts = urlsplit(own_postgres_url)
    where = f"host={parts.hostname}&port={parts.port}&application_name=shop"
    found = database(f"postgresql://{parts.username}@{parts.path}?{where}", tmp_path)
    found.prepare()
    try:
        assert found.server == (parts.hostname, parts.port)
        path = urlsplit(found.by_way_of(1234))
        assert (path.netloc, path.path) == (f"{parts.username}@127.0.0.1:1234", parts.path)
        assert path.query == "application_name=shop&sslmode=disable&gssencmode=disable"
    finally:
        found.clear()


def test_locks_of_others_are_not_the_storms(own_postgres_url: str, tmp_path: Path) -> None:
    found = database(own_postgres_url, tmp_path)
    found.prepare()
    try:
        with psycopg.connect(own_postgres_url) as stranger:
            stranger.execute("SELECT pg_advisory_lock(1)")
            assert found.leftovers() == 0
            stranger.execute(f"SELECT * FROM {SCHEMA}.effects")
            assert found.leftovers() > 0
    finally:
        found.clear()


def test_a_schema_that_is_there_already_is_not_touched(
    own_postgres_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with psycopg.connect(own_postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {SCHEMA}")
        connection.execute(f"CREATE TABLE {SCHEMA}.precious ()")

        assert main(["demo", own_postgres_url]) == 2

        assert f"DROP SCHEMA {SCHEMA}" in capsys.readouterr().err
        assert connection.execute(f"SELECT * FROM {SCHEMA}.precious").fetchall() == []


def test_without_a_server_one_line_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "postgresql://nobody:secret@127.0.0.1:1/shop"]) == 2

    told = capsys.readouterr().err
    assert "no PostgreSQL answers there" in told
    assert "secret" not in told


def test_a_cluster_of_another_server_is_refused_before_anything_is_done(
    own_postgres_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", own_postgres_url, "--cluster", str(tmp_path)]) == 2

    assert "does not serve" in capsys.readouterr().err
    with psycopg.connect(own_postgres_url) as connection:
        found = connection.execute(f"SELECT to_regnamespace('{SCHEMA}')").fetchone()
    assert found == (None,)


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_process_that_is_no_server_of_the_folder_is_never_struck(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"]) as stranger:
        (tmp_path / "postmaster.pid").write_text(f"{stranger.pid}\n{tmp_path}\n")
        try:
            with pytest.raises(Exception, match="no server of this machine serves"):
                server_pid(tmp_path)
        finally:
            stranger.kill()
