"""docs/testing.md: every file on it is a file, and the tests in them pass."""

import os
import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
FILE = re.compile(r"^```(?:py|toml)\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What pytest-django brings, and a project that its fixture could serve.
DJANGO = {
    "settings.py": """
        DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db",
                                 "TEST": {"NAME": "test.sqlite3"}}}
        """,
    "shop.py": """
        import django
        django.setup()
        import duly
        from django.db import connection

        app = duly.Duly(begin=duly.django("default"))
        app.source("stripe", secret="whsec_example")

        @app.on("stripe")
        def record(event, tx):
            with connection.cursor() as cursor:
                cursor.execute("INSERT INTO payments (id) VALUES (%s)", [event.id])
        """,
    "django_stand_in.py": """
        import django
        import pytest
        from django.db import connection
        from django.test.utils import setup_databases, teardown_databases

        @pytest.fixture
        def transactional_db():
            django.setup()
            made = setup_databases(verbosity=0, interactive=False)
            with connection.cursor() as cursor:
                cursor.execute("CREATE TABLE payments (id text)")
            yield
            connection.close()
            teardown_databases(made, verbosity=0)
        """,
}


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
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid_out(pytester, files("web"))
    pytester.makepyfile(**{name.removesuffix(".py"): text for name, text in DJANGO.items()})
    pytester.makepyprojecttoml('[tool.pytest.ini_options]\nduly_app = "shop:app"')
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "settings")
    monkeypatch.setenv("PYTHONPATH", str(pytester.path), prepend=os.pathsep)
    assert passed(pytester, "-p", "django_stand_in") == 1
    assert not Path(pytester.path, "shop.db").exists()
