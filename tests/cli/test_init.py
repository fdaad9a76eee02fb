"""``duly init`` writes an app that is sound as it stands, and never replaces another file."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from duly.cli.main import main
from duly.webhooks import provider_named
from tests.webhooks.genuine import PROVIDERS

Output = pytest.CaptureFixture[str]
BIN = Path(sys.executable).parent
# As strict as duly is with itself; but there duly is a third party's package.
RUFF = [
    str(BIN / "ruff"), "--isolated", "--quiet", "--line-length=100",
    "--select=E,F,W,I,B,UP,SIM,RET,PL,C90,S,ASYNC,RUF,PTH,ERA,D,ARG,TC",
    "--config=lint.pydocstyle.convention='google'",
]  # fmt: skip


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def checked(command: list[str]) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_every_app_is_written_as_our_own_tools_want_it(tmp_path: Path) -> None:
    for provider in PROVIDERS:
        folder = provider.replace("-", "_")
        assert main(["init", f"sqlite/{folder}", "--provider", provider]) == 0
        assert main(["init", f"postgres/{folder}", "--provider", provider, "--postgres"]) == 0
    assert len(list(tmp_path.rglob("app.py"))) == 2 * len(PROVIDERS)
    checked([RUFF[0], "check", *RUFF[1:], "."])
    checked([RUFF[0], "format", "--isolated", "--line-length=100", "--check", "."])


@pytest.mark.parametrize("options", [[], ["--postgres"]])
def test_an_app_has_its_provider_its_type_its_secret_and_its_commands(
    options: list[str], capsys: Output
) -> None:
    assert main(["init", "shop.py", "--provider", "github", *options]) == 0
    text = Path("shop.py").read_text()
    assert '@app.on("github", "pull_request.opened")' in text
    assert '"GITHUB_WEBHOOK_SECRET"' in text
    assert "development only" in text
    assert ("DATABASE_URL" in text) == bool(options)
    assert ("sqlite" in text) == (not options)
    steps = capsys.readouterr().out.splitlines()[1:]
    assert steps[-2:] == [
        "  duly serve shop:app",
        "  duly deliver github --secret github-example-secret",
    ]
    assert all(step in text for step in steps)


def test_without_arguments_it_is_stripe_on_sqlite_in_app_py(tmp_path: Path) -> None:
    assert main(["init"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["app.py"]
    text = Path("app.py").read_text()
    assert 'app.source("stripe", secret=SECRET, inline=True)' in text
    assert '@app.on("stripe", "payment_intent.succeeded")' in text


@pytest.mark.parametrize("provider", ["hubspot", "square", "twilio"])
def test_where_the_url_is_signed_the_app_knows_its_own(provider: str) -> None:
    assert main(["init", "--provider", provider]) == 0
    text = Path("app.py").read_text()
    assert text.count('url=f"{BASE}/') == 2
    assert f'inline=True, url=f"{{BASE}}/{provider}")' in text


def test_a_folder_is_made_and_named_in_the_steps(capsys: Output) -> None:
    assert main(["init", "here/shop", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["file"] == "here/shop/app.py"
    assert told["steps"][0] == "cd here/shop"
    assert Path("here/shop/app.py").is_file()


def test_a_file_that_is_there_stays_unless_told_otherwise(capsys: Output) -> None:
    path = Path("app.py")
    path.write_text("mine")
    assert main(["init"]) == 2
    output = capsys.readouterr()
    assert output.err == "duly: app.py is there already: use --force to replace it\n"
    assert output.out == ""
    assert path.read_text() == "mine"
    assert main(["init", "--force"]) == 0
    assert "duly.Duly(" in path.read_text()


def test_a_dangling_link_and_a_folder_are_not_replaced_either(tmp_path: Path) -> None:
    Path("app.py").symlink_to("elsewhere.py")
    Path("shop.py").mkdir()
    assert main(["init"]) == 2
    assert main(["init", "shop.py"]) == 2
    assert main(["init", "shop.py", "--force"]) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app.py", "shop.py"]
    assert not Path("elsewhere.py").exists()


def test_the_file_has_the_rights_of_any_new_file() -> None:
    assert main(["init"]) == 0
    other = Path("other")
    other.touch()
    assert stat.S_IMODE(Path("app.py").stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


def test_a_disk_that_is_full_leaves_nothing_half_written() -> None:
    """A limit on the size of files, which the system enforces as it does a full disk."""
    limited = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); "
        "from duly.cli.main import main; sys.exit(main(['init', *sys.argv[1:]]))"
    )
    Path("mine.py").write_text("mine")
    for arguments in ([], ["mine.py", "--force"]):
        ran = subprocess.run(
            [sys.executable, "-B", "-c", limited, *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 1
        assert ran.stderr.startswith("duly: ")
    assert [path.name for path in Path().iterdir()] == ["mine.py"]
    assert Path("mine.py").read_text() == "mine"


@pytest.mark.parametrize(
    "name", ["my-shop.py", "2.py", "duly.py", "logging.py", "psycopg.py", "é b.py"]
)
def test_a_name_that_could_not_be_imported_is_refused(
    name: str, tmp_path: Path, capsys: Output
) -> None:
    assert main(["init", name]) == 2
    assert "as in app.py" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_provider_is_refused_with_a_suggestion(tmp_path: Path, capsys: Output) -> None:
    assert main(["init", "--provider", "githbu"]) == 2
    assert "did you mean 'github'?" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("provider", ["discord", "sendgrid"])
def test_an_app_with_a_public_key_shows_how_to_send_with_the_private_one(provider: str) -> None:
    assert main(["init", "--provider", provider]) == 0
    text = Path("app.py").read_text()
    assert f'"{provider.upper()}_PUBLIC_KEY"' in text
    assert "$(python -c 'import app; print(app.PRIVATE_KEY)')" in text
    assert f"The events of {provider_named(provider).title}:" in text


def test_on_postgres_the_library_that_is_missing_is_named_with_its_extra() -> None:
    hidden = (
        "import sys; sys.modules['psycopg'] = None; from duly.cli.main import main; "
        "sys.exit(main(['init', '--postgres']))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", hidden], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0
    assert ran.stdout.startswith("wrote app.py; now\n")
    assert ran.stderr == (
        "duly: the app needs psycopg and psycopg_pool: "
        "pip install '.[postgres]' in a checkout of duly\n"
    )
