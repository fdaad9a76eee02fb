"""docs/testing.md: every file on it is a file, and the tests in them pass."""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.stores.join.django_handles import database
from tests.testing.django_projects import lay_out

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.slow, pytest.mark.wide]

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
FILE = re.compile(r"^```(?:py|toml)\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def files(folder: str = "") -> dict[str, str]:
    """The files on the page, of one project."""
    found = FILE.findall(PAGE.read_text())
    return {
        Path(name).name: text for name, text in found if str(Path(name).parent) == (folder or ".")
    }


def laid_out(pytester: pytest.Pytester, found: dict[str, str]) -> None:
    for name, text in found.items():
        Path(pytester.path, name).write_text(text)


def passed(pytester: pytest.Pytester, *words: str) -> int:
    """How many tests of a project pass, with warnings as errors; none may do anything else."""
    told = ("-p", "duly_pytest", "-p", "no:cacheprovider", "-W", "error", *words)
    outcomes = pytester.runpytest_subprocess(*told).parseoutcomes()
    assert set(outcomes) == {"passed"}
    return outcomes["passed"]


def test_the_walk_of_a_newcomer_passes(pytester: pytest.Pytester) -> None:
    found = files()
    written = sum(text.count("def test_") for text in found.values())
    assert written > 10
    laid_out(pytester, found)
    assert passed(pytester) == written
    assert not Path(pytester.path, "shop.db").exists()


def test_the_project_with_sqlalchemy_passes(pytester: pytest.Pytester) -> None:
    laid_out(pytester, files("orm"))
    pytester.makepyprojecttoml('[tool.pytest.ini_options]\nduly_app = "shop:app"')
    assert passed(pytester) == 1
    assert not Path(pytester.path, "shop.db").exists()


def test_the_project_with_django_passes(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, empty_postgres_url: str
) -> None:
    found = {**files("web"), "shop/tests.py": files("web/shop")["tests.py"]}
    lay_out(pytester.path, database(empty_postgres_url), found)
    pytester.makepyprojecttoml('[tool.pytest.ini_options]\nduly_app = "shop.hooks:app"')
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "settings")
    monkeypatch.setenv("PYTHONPATH", str(pytester.path), prepend=os.pathsep)
    monkeypatch.delenv("DJANGO_ALLOW_ASYNC_UNSAFE", raising=False)
    assert passed(pytester) == 1
    assert "Ran 1 test" in pytester.run(sys.executable, "manage.py", "test").stderr.str()
