"""An app written by ``duly init`` receives what its own ``duly deliver`` line sends, over HTTP."""

from __future__ import annotations

import importlib
import json
import os
import shlex
import socket
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import uvicorn

from duly.cli.main import main
from duly.webhooks import provider_named
from tests.support.sizes import mostly_wide
from tests.webhooks.genuine import PROVIDERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

pytestmark = pytest.mark.slow

Output = pytest.CaptureFixture[str]
BIN = Path(sys.executable).parent


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder to write to and to import from, without the settings of the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in [name for name in os.environ if name.endswith(("_SECRET", "_PRIVATE_KEY"))]:
        monkeypatch.delenv(name)


def written(capsys: Output, *options: str) -> list[str]:
    """The send line of a new app, as words."""
    assert main(["init", "--json", *options]) == 0
    line: str = json.loads(capsys.readouterr().out)["steps"][-1]
    return shlex.split(line)


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, ModuleType]]:
    """The app of this folder behind uvicorn; its address is there before it is imported."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        monkeypatch.setenv("BASE_URL", base)
        monkeypatch.delitem(sys.modules, "app", raising=False)
        module = importlib.import_module("app")
        server = uvicorn.Server(uvicorn.Config(module.app, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield base, module
        finally:
            server.should_exit = True
            thread.join()
            module.app.close()
            monkeypatch.delitem(sys.modules, "app")


def counted(statement: str) -> Any:
    with closing(sqlite3.connect("app.db")) as connection:
        return connection.execute(statement).fetchone()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_each_event_of_every_provider_takes_effect_once(
    provider: str, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    words = written(capsys, "--provider", provider)
    with serving(monkeypatch) as (base, module):
        secret = getattr(module, "PRIVATE_KEY", words[-1])
        send = ["deliver", provider, f"{base}/{provider}", "--secret", secret]
        assert main(send) == 0
        assert main([*send, "--concurrent", "10"]) == 0
        assert main([*send, "--duplicate", "2"]) == 0
        assert main([*send, "--tamper"]) == 0
    out = capsys.readouterr().out
    if provider_named(provider).success == 204:  # its replies have no body that could say more
        assert "10 copies: 10 No Content" in out
    else:
        assert "10 copies: 1 accepted, 9 duplicate" in out
        assert "2 copies: 1 accepted, 1 duplicate" in out
    assert words[:3] == ["duly", "deliver", provider]
    assert counted("SELECT count(*), count(DISTINCT event_id) FROM handled") == (3, 3)


def test_an_event_of_the_deferred_source_becomes_one_job_and_takes_effect_once(
    monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    words = written(capsys)
    with serving(monkeypatch) as (base, module):
        url = f"{base}/stripe-later"
        assert main([*words[1:], url, "--concurrent", "10"]) == 0
        assert main([*words[1:], url, "--type", "charge.refunded"]) == 0
        assert main([*words[1:], f"{base}/stripe"]) == 0
        waiting = "SELECT group_concat(name) FROM (SELECT name FROM duly_jobs ORDER BY created_at)"
        assert counted(waiting) == ("record_later,record_later,announce",)
        assert module.app.work().done == 3
    assert "10 copies: 1 accepted, 9 duplicate" in capsys.readouterr().out
    assert counted("SELECT count(*), count(DISTINCT event_id) FROM handled") == (3, 3)
    assert counted("SELECT count(*), min(state) FROM duly_effects") == (1, "done")
    assert counted("SELECT count(*) FROM duly_jobs") == (0,)


@pytest.mark.parametrize("provider", mostly_wide(["discord", "stripe"], shown="stripe".__eq__))
def test_the_send_line_works_in_a_shell_as_it_was_printed(
    provider: str, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    assert main(["init", "--provider", provider]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    with serving(monkeypatch) as (base, _):
        ran = subprocess.run(
            f"{line} {base}/{provider}",
            shell=True,
            env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("204 No Content" if provider == "discord" else "200 accepted")


def test_a_secret_of_the_environment_takes_the_place_of_the_one_in_the_file(
    monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    words = written(capsys)
    monkeypatch.setenv("STRIPE_WEBHOOK_SECRET", "a-secret-of-our-own")
    with serving(monkeypatch) as (base, _):
        assert main([*words[1:], f"{base}/stripe"]) == 1
        assert main(["deliver", "stripe", f"{base}/stripe"]) == 0
    out = capsys.readouterr().out
    assert "BAD_SIGNATURE" in out.splitlines()[0]


def test_on_postgres_the_file_makes_its_tables_and_keeps_the_effects_there(
    own_postgres_url: str, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    words = written(capsys, "--postgres")
    monkeypatch.setenv("DATABASE_URL", own_postgres_url)
    for _ in range(2):  # once more does no harm
        subprocess.run([sys.executable, "-W", "error", "app.py"], check=True)
    with serving(monkeypatch) as (base, _):
        assert main([*words[1:], f"{base}/stripe", "--concurrent", "10"]) == 0
        assert main([*words[1:], f"{base}/stripe-later", "--concurrent", "10"]) == 0
    with psycopg.connect(own_postgres_url) as connection:
        assert connection.execute("SELECT count(*) FROM handled").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM duly_jobs").fetchone() == (2,)


@pytest.mark.wide
def test_an_app_is_typed_as_strictly_as_duly(tmp_path: Path, capsys: Output) -> None:
    for provider in ("stripe", "discord", "square"):
        written(capsys, f"app_{provider}.py", "--provider", provider)
        written(capsys, f"app_{provider}_postgres.py", "--provider", provider, "--postgres")
    ran = subprocess.run(
        [BIN / "mypy", "--strict", "--cache-dir", tmp_path / "cache", *tmp_path.glob("app_*.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
