"""The command ``duly`` says what it did, exits with what it means, and never shows a password."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

import duly
from duly.cli.main import COMMANDS, main
from duly.stores.sql.migrations import latest_version, migrations
from tests.support.catalogs import catalog, facts
from tests.support.migrators import later_migration, migrated

DULY = [sys.executable, "-m", "duly"]
SECRET = "hunter2"
AT_ONCE = timedelta(microseconds=1)
CURRENT = latest_version("sqlite")
MIGRATIONS = [migration.name for migration in migrations("sqlite")]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the settings of the environment."""
    for name in ("DULY_APP", "DULY_URL", "DULY_PREFIX", "DULY_SCHEMA"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(params=["postgres", "sqlite"])
def empty_url(request: pytest.FixtureRequest) -> str:
    name = "empty_postgres_url" if request.param == "postgres" else "sqlite_url"
    url: str = request.getfixturevalue(name)
    return url


@pytest.fixture
def url(empty_url: str) -> str:
    migrated(empty_url, "duly_")
    return empty_url


def duly_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*DULY, *arguments], capture_output=True, text=True, check=False)


def expired_claims(url: str, count: int) -> None:
    with duly.store(url) as store:
        duly.dedup_many(store, "scope", [f"key {number}" for number in range(count)], AT_ONCE)
        assert duly.dedup(store, "scope", "kept").first


Output = pytest.CaptureFixture[str]


def test_migrate_says_what_it_applied_and_then_that_nothing_is_left(
    empty_url: str, capsys: Output
) -> None:
    assert main(["migrate", empty_url]) == 0
    applied = "".join(f"applied {name}\n" for name in MIGRATIONS)
    assert capsys.readouterr().out == f"{applied}now at schema version {CURRENT}\n"
    assert main(["migrate", empty_url]) == 0
    assert capsys.readouterr().out == f"up to date: schema version {CURRENT}\n"


def test_migrate_answers_programs_in_json(empty_url: str, capsys: Output) -> None:
    assert main(["migrate", "--json", empty_url]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"applied": MIGRATIONS, "version": CURRENT}


def test_the_environment_names_the_database_unless_the_argument_does(
    empty_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setenv("DULY_URL", empty_url)
    assert main(["migrate"]) == 0
    assert main(["migrate", f"sqlite:///{tmp_path}/other.db"]) == 0
    assert capsys.readouterr().out.count("applied") == 2 * len(MIGRATIONS)
    assert facts(empty_url)
    assert (tmp_path / "other.db").exists()


def write_app(folder: Path, url: str) -> str:
    """An application on this database, and how a command names it."""
    path = folder / "bookshop.py"
    path.write_text(f"import duly\n\napp = duly.Duly({url!r}, prefix='shop_')\n")
    return f"{path}:app"


def in_app(app: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, because it imports the application."""
    return subprocess.run(
        [*DULY, *arguments, app] if app else [*DULY, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **more},
    )


def test_migrate_and_prune_take_an_application_as_well_as_an_address(
    empty_url: str, tmp_path: Path
) -> None:
    app = write_app(tmp_path, empty_url)
    missing = in_app(app, "migrate", "--check")
    assert (missing.returncode, facts(empty_url)) == (1, {})
    printed = in_app(app, "migrate", "--print")
    assert "shop_claims" in printed.stdout, printed.stderr
    assert facts(empty_url) == {}

    done = in_app(app, "migrate")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(f"now at schema version {CURRENT}\n")
    assert catalog(empty_url, "shop_")["columns"]
    checked = in_app("", "migrate", "--check", DULY_APP=app)
    assert (checked.returncode, checked.stderr) == (0, "")
    pruned = in_app(app, "prune", "--json")
    assert (pruned.returncode, json.loads(pruned.stdout)["claims"]) == (0, 0)


def test_an_application_names_its_tables_itself(sqlite_url: str, tmp_path: Path) -> None:
    refused = in_app(write_app(tmp_path, sqlite_url), "migrate", "--prefix", "other_")
    assert refused.returncode == 2
    assert refused.stderr == (
        "duly: an application names its tables itself: leave out --prefix and --schema\n"
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["serv"], "did you mean serve?"),
        (["migrat", "sqlite:///shop.db"], "did you mean migrate?"),
        (["serve", "shop:app", "--prot", "8000"], "--prot: did you mean --port?"),
        (["worker", "shop:app", "--concurency=3"], "--concurency: did you mean --concurrency?"),
        (["migrate", "sqlite:///x.db", "--durability", "anny"], "did you mean any?"),
        (["jobs", "shwo", "shop:app", "0198c3a2-5d1e-7b4f-9c60-8a2f41d7e305"],
         "did you mean `duly jobs show`?"),
        (["outbox", "replya", "shop:app", "--all"],
         "write dead, show, replay, discard or stats, or none of them: did you mean `duly outbox "),
    ],
)  # fmt: skip
def test_a_mistyped_word_is_told_what_it_was_meant_to_be(
    arguments: list[str], told: str, capsys: Output
) -> None:
    try:
        code = main(arguments)
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "now"),
    [
        ("send stripe --secret hunter2", "duly send is now duly deliver"),
        ("send --help", "duly send is now duly deliver"),
        ("dead sqlite:///shop.db", "duly dead is now duly jobs dead"),
        ("dead show shop:app", "duly dead show is now duly jobs show"),
        ("dead discard shop:app", "duly dead discard is now duly jobs discard"),
        ("replay --all", "duly replay is now duly jobs replay"),
        ("resolve shop:app", "duly resolve is now duly effects resolve"),
        ("storm --deliveries 9", "duly storm is now duly demo"),
    ],
)
def test_a_command_by_its_old_name_says_the_new_one(words: str, now: str, capsys: Output) -> None:
    assert main(words.split()) == 2
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", f"duly: {now}: see docs/upgrading.md\n")


def test_a_word_that_resembles_nothing_is_neither_repeated_nor_guessed(capsys: Output) -> None:
    for arguments in (["whsec_canary"], ["serve", "shop:app", "--zzz=whsec_canary"]):
        with pytest.raises(SystemExit):
            main(arguments)
        told = capsys.readouterr().err
        assert "canary" not in told
        assert "did you mean" not in told


def test_prefix_and_schema_name_the_tables(empty_postgres_url: str) -> None:
    there = [empty_postgres_url, "--prefix", "shop_", "--schema", "audit"]
    assert main(["migrate", *there]) == 0
    assert catalog(empty_postgres_url, "shop_", schema="audit")["columns"]
    assert main(["prune", *there]) == 0
    assert main(["migrate", "--check", *there]) == 0
    assert main(["migrate", "--check", empty_postgres_url]) == 1


def test_check_changes_nothing_and_says_what_to_do(empty_url: str, capsys: Output) -> None:
    assert main(["migrate", "--check", empty_url]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert "run `duly migrate URL`" in output.err
    assert facts(empty_url) == {}
    main(["migrate", empty_url])
    capsys.readouterr()
    assert main(["migrate", "--check", empty_url]) == 0
    assert capsys.readouterr().out == f"up to date: schema version {CURRENT}\n"


def test_check_tells_older_tables_from_missing_ones(url: str, capsys: Output) -> None:
    with later_migration():
        assert main(["migrate", "--check", "--json", url]) == 1
    output = capsys.readouterr()
    assert json.loads(output.out) == {"version": CURRENT, "needed": CURRENT + 1}
    assert f"needs {CURRENT + 1}: run `duly migrate URL`" in output.err
    assert facts(url)["migrated_to"] == str(CURRENT)


def test_prune_deletes_in_chunks_until_none_is_left_and_says_how_many(
    url: str, capsys: Output
) -> None:
    expired_claims(url, 7)
    assert main(["prune", url, "--limit", "2"]) == 0
    output = capsys.readouterr()
    assert output.out == (
        "pruned 7 claims, 0 bodies, 0 events, 0 counters, 0 history, 0 effects, 0 workers\n"
    )
    assert output.err.splitlines()[0] == "pruned 2 claims so far"
    assert main(["prune", url, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "claims": 0,
        "bodies": 0,
        "events": 0,
        "counters": 0,
        "history": 0,
        "effects": 0,
        "workers": 0,
    }
    with duly.store(url) as store:
        assert duly.dedup(store, "scope", "kept").duplicate


def test_a_limit_that_makes_no_sense_is_a_usage_error(url: str, capsys: Output) -> None:
    assert main(["prune", url, "--limit", "0"]) == 2
    assert capsys.readouterr().err.startswith("duly: limit must be a whole number from 1")


def test_prune_makes_no_database_of_a_mistyped_path(
    sqlite_url: str, tmp_path: Path, capsys: Output
) -> None:
    assert main(["prune", sqlite_url]) == 1
    assert "run `duly migrate URL`" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_on_a_terminal_progress_rewrites_one_line(sqlite_url: str) -> None:
    migrated(sqlite_url, "duly_")
    expired_claims(sqlite_url, 5)
    ours, theirs = pty.openpty()
    ended = subprocess.run(
        [*DULY, "prune", sqlite_url, "--limit", "5"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        check=True,
    )
    os.close(theirs)
    shown = os.read(ours, 1000).decode()
    os.close(ours)
    assert shown == "\r\x1b[Kpruned 5 claims so far\r\x1b[K"
    assert (
        ended.stdout
        == b"pruned 5 claims, 0 bodies, 0 events, 0 counters, 0 history, 0 effects, 0 workers\n"
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["migrate", "/nowhere"], 2),
        (["migrate", "mysql://ann@db/shop"], 2),
        (["migrate", "memory:"], 2),
        (["migrate"], 2),
        (["prune", "sqlite:///x.db", "--prefix", "Robert'); --"], 2),
        (["migrate", "sqlite:////nowhere/x.db"], 1),
        (["migrate", "postgresql://ann@127.0.0.1:1/shop"], 1),
        (["deliver"], 2),
        (["deliver", "strpe"], 2),
        (["deliver", "stripe", "nowhere", "--secret", "x"], 2),
        (["deliver", "stripe", "--secret", "x", "--body", "nowhere.json"], 2),
        (["init", "--provider", "strpe"], 2),
        (["init", "my-shop.py"], 2),
        (["init", "/dev/null/shop"], 1),
    ],
)
def test_an_expected_error_is_one_line_and_an_exit_code(
    arguments: list[str],
    code: int,
    capsys: Output,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == code
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("duly: ")
    assert output.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_one_line_too(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "x.db").write_text("this is not a database, but it is long enough to be read " * 9)
    for arguments in (["migrate"], ["migrate", "--check"], ["migrate", "--print"], ["prune"]):
        assert main([*arguments, f"sqlite:///{tmp_path}/x.db"]) == 1
        assert capsys.readouterr().err.startswith("duly: SQLite could not use the database file")


@pytest.mark.parametrize(
    "arguments",
    [
        ["migrate", f"postgresql://ann:{SECRET}@127.0.0.1:1/shop"],
        ["migrate", "--check", f"postgresql://ann:{SECRET}@127.0.0.1:1/shop"],
        ["migrate", f"postgresql://127.0.0.1:1/shop?user=ann&password={SECRET}"],
        ["migrate", f"mysql://ann:{SECRET}@db/shop"],
        ["migrate", f"postgresql://ann:{SECRET}@[::1/shop"],
        ["migrate", f"postgresql://ann:{SECRET}%zz@db/shop"],
        ["migrate", f"postgresql://ann:x@{SECRET}@db/shop"],
        ["migrate", f"sqlite://ann:{SECRET}@db/shop"],
        ["migrate", "sqlite:///x.db", f"postgresql://ann:{SECRET}@db/shop"],
        ["prune", "sqlite:///x.db", "--limit", f"postgresql://ann:{SECRET}@db/shop"],
        ["prune", f"--password={SECRET}"],
        [f"postgresql://ann:x@{SECRET}@db/shop"],
        ["deliver", "stripe", f"http://ann:{SECRET}@127.0.0.1:1/stripe", "--secret", "x"],
        ["deliver", "stripe", SECRET, "--secret", "x"],
        ["deliver", SECRET],
        ["deliver", "stripe", "http://127.0.0.1:1", "--secret", SECRET],
        ["deliver", "stripe", "--secrte", SECRET],
        ["deliver", "stripe", f"--secrte={SECRET}"],
        ["deliver", "stripe", "--header", f"Authorization {SECRET}", "--secret", "x"],
        ["--secret", SECRET, "deliver", "stripe"],
        ["init", "--provider", SECRET],
    ],
)
def test_no_complaint_shows_a_password(arguments: list[str], capsys: Output) -> None:
    try:
        code = main(arguments)
    except SystemExit as ended:  # argparse leaves this way
        code = int(str(ended.code))
    output = capsys.readouterr()
    assert code in (1, 2)
    assert output.err
    assert SECRET not in output.out + output.err


def test_version_and_help_are_told_by_command_and_module_alike() -> None:
    program = shutil.which("duly", path=str(Path(sys.executable).parent))
    assert program is not None, "the package is not installed"
    for command in (DULY, [program]):
        told = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
        assert told.stdout == f"duly {duly.__version__}\n"
    assert duly_command("--help").stdout == duly_command().stderr
    assert duly_command().returncode == 2


def test_every_command_has_help_with_examples(capsys: Output) -> None:
    for name, summary in COMMANDS.items():
        with pytest.raises(SystemExit, match="0"):
            main([name, "--help"])
        shown = capsys.readouterr().out
        assert summary in shown
        assert f"examples:\n  duly {name} " in shown
        assert max(map(len, shown.splitlines())) <= 100


def interrupt(program: subprocess.Popen[str]) -> None:
    assert program.stderr is not None
    assert program.stderr.readline() == "pruned 1 claims so far\n"
    program.send_signal(signal.SIGINT)


def stop_reading(program: subprocess.Popen[str]) -> None:
    assert program.stdout is not None
    program.stdout.close()


@pytest.mark.parametrize(
    ("arguments", "leave", "code"),
    [(["prune", "--limit", "1"], interrupt, 130), (["migrate", "--print"], stop_reading, 141)],
)
def test_it_ends_quietly_when_it_is_interrupted_or_its_pipe_is_closed(
    sqlite_url: str,
    arguments: list[str],
    leave: Callable[[subprocess.Popen[str]], None],
    code: int,
) -> None:
    if leave is interrupt:
        migrated(sqlite_url, "duly_")
        expired_claims(sqlite_url, 10_000)
    with subprocess.Popen(
        [*DULY, *arguments, sqlite_url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        leave(program)
        assert program.wait() == code
        assert program.stderr is not None
        assert "Traceback" not in program.stderr.read()
