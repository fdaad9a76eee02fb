"""What ``duly migrate --print`` prints can be run as it stands, and makes what migrating makes."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from duly.cli.main import main
from tests.support.catalogs import catalog, facts, sqlite_path
from tests.support.migrators import LATER, earlier_duly, later_migration, migrated

Output = pytest.CaptureFixture[str]


@pytest.fixture(params=["postgres", "sqlite"])
def empty_url(request: pytest.FixtureRequest) -> str:
    name = "empty_postgres_url" if request.param == "postgres" else "sqlite_url"
    url: str = request.getfixturevalue(name)
    return url


@pytest.fixture
def url(empty_url: str) -> str:
    migrated(empty_url, "duly_")
    return empty_url


def run_script(script: str, url: str) -> None:
    """Run a script as a person would, with the database's own program where there is one."""
    sqlite = url.startswith("sqlite")
    program = shutil.which("sqlite3" if sqlite else "psql")
    if program is not None:
        where = str(sqlite_path(url)) if sqlite else url
        command = [program, where] if sqlite else [program, "--no-psqlrc", "--quiet", where]
        ended = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stderr, ended.stdout) == (0, "", "")
        return
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(script.encode())


def kind(url: str) -> str:
    return "sqlite://" if url.startswith("sqlite") else "postgresql://"


def test_the_printed_script_makes_what_migrate_makes(empty_url: str, capsys: Output) -> None:
    assert main(["migrate", "--print", kind(empty_url)]) == 0
    script = capsys.readouterr().out
    assert script.splitlines()[1].startswith("BEGIN")
    assert script.endswith("COMMIT;\n")
    run_script(script, empty_url)
    migrated(empty_url, "other_")
    assert catalog(empty_url, "duly_") == catalog(empty_url, "other_")
    assert facts(empty_url).keys() == facts(empty_url, "other_").keys()
    assert main(["migrate", "--check", empty_url]) == 0


def test_the_printed_script_goes_on_from_where_the_database_is(url: str, capsys: Output) -> None:
    assert main(["migrate", "--print", url]) == 0
    assert capsys.readouterr().out.startswith("-- Nothing to do")
    with later_migration():
        assert main(["migrate", "--print", url]) == 0
        script = capsys.readouterr().out
        assert "CREATE TABLE" not in script
        run_script(script, url)
        assert main(["migrate", "--check", url]) == 0


def test_the_printed_script_goes_on_from_the_tables_of_the_first_release(
    empty_url: str, capsys: Output
) -> None:
    with earlier_duly(1):
        migrated(empty_url, "duly_")
    named = facts(empty_url)["installation_id"]
    assert main(["migrate", "--print", empty_url]) == 0
    script = capsys.readouterr().out
    assert 'duly_claims" (' not in script
    run_script(script, empty_url)
    migrated(empty_url, "other_")
    assert catalog(empty_url, "duly_") == catalog(empty_url, "other_")
    assert facts(empty_url) == facts(empty_url, "other_") | {"installation_id": named}


def test_the_printed_script_is_the_same_each_time_and_names_each_database_anew(
    tmp_path: Path, capsys: Output
) -> None:
    scripts = []
    for _ in range(2):
        assert main(["migrate", "--print", "--json", "sqlite://"]) == 0
        scripts.append(json.loads(capsys.readouterr().out)["sql"])
    assert scripts[0] == scripts[1]
    one, two = (f"sqlite:///{tmp_path}/{name}.db" for name in ("one", "two"))
    for database in (one, two):
        run_script(scripts[0], database)
    assert facts(one)["installation_id"] != facts(two)["installation_id"]


def test_an_old_script_that_is_run_late_does_not_take_the_version_back(
    sqlite_url: str, capsys: Output
) -> None:
    assert main(["migrate", "--print", "sqlite://"]) == 0
    script = capsys.readouterr().out
    with later_migration():
        migrated(sqlite_url, "duly_")
    program = shutil.which("sqlite3")
    if program is None:
        pytest.skip("capability missing: sqlite3 (the program, which goes on after an error)")
    subprocess.run(
        [program, sqlite_path(sqlite_url)],
        input=script,
        text=True,
        capture_output=True,
        check=False,
    )
    found = facts(sqlite_url)
    assert found["schema_version"] == found["migrated_to"] == str(LATER.number)


def test_a_script_needs_neither_a_database_nor_a_driver(tmp_path: Path) -> None:
    block = "import sys; sys.modules['psycopg'] = None; from duly.cli.main import main; "
    for arguments in (["--print", "postgresql://"], ["postgresql://ann@db/shop"]):
        ended = subprocess.run(
            [sys.executable, "-c", f"{block} sys.exit(main(['migrate', *{arguments}]))"],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
        if arguments[0] == "--print":
            assert (ended.returncode, ended.stderr) == (0, "")
            assert "CREATE TABLE" in ended.stdout
        else:
            assert ended.returncode == 2
            assert "pip install '.[postgres]'" in ended.stderr
