"""Tests of a Django project: both runners, on PostgreSQL as it is set up by default, and SQLite."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.stores.join.django_handles import database
from tests.support.servers.databases import database_of
from tests.testing.django_projects import lay_out

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

# Test modules that import the app: it is made before the test database, and bound to it.
BOUND = """
    import duly
    from django.db import connection
    from django.test import TestCase, TransactionTestCase
    from duly import testing
    from shop.hooks import app, receipt
    from shop.models import Payment

    EVENT = {"id": "evt_1", "type": "charge.succeeded"}

    class BoundTest(TransactionTestCase):
        def setUp(self):
            url = testing.django_test_database("default")
            self.trial = self.enterContext(testing.isolated(app, url=url))

        def test_duly_is_empty_in_every_test(self):
            self.check()

        def test_duly_is_empty_in_every_other_test(self):
            self.check()

        def check(self):
            told = self.trial.deliver("stripe", EVENT, times=2).words
            self.assertEqual(told, ["accepted", "duplicate"])
            self.assertEqual(self.trial.run_jobs().done, ["record"])
            self.assertEqual(Payment.objects.count(), 1)
            Payment.objects.all().delete()
            told = self.trial.deliver("now", EVENT, times=2).words
            self.assertEqual(told, ["accepted", "duplicate"])
            self.assertEqual(Payment.objects.count(), 1)

        def test_a_view_enqueues_in_its_block(self):
            self.assertEqual(self.client.get("/buy/b1").status_code, 200)
            self.assertEqual(self.trial.run_jobs().done, ["receipt", "receipt"])

    class UnboundTest(TransactionTestCase):
        def test_nothing_is_written_to_the_real_database(self):
            with self.assertRaisesMessage(duly.errors.UsageError, "Django's test runner has put"):
                app.enqueue(receipt)
            with self.assertRaisesMessage(duly.errors.UsageError, "Django's test runner has put"):
                self.client.get("/buy/b1")
            sent = duly.sign("stripe", b'{"id": "evt_1", "type": "a"}', "whsec_x", id="evt_1")
            with self.assertRaisesMessage(duly.errors.UsageError, "Django's test runner has put"):
                self.client.post("/hooks/stripe", sent.body, content_type="application/json")

        def test_the_rows_of_bound_tests_are_gone(self):
            with connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM duly_events")
                self.assertEqual(cursor.fetchone(), (0,))

    class RolledBackTest(TestCase):
        def test_a_transaction_that_is_rolled_back_is_refused(self):
            with self.assertRaisesMessage(duly.errors.UsageError, "transactional_db"):
                testing.django_test_database("default")
"""
# Test modules that know the site alone: its app is made on the test database.
SITE = """
    import duly
    from django.db import connection, transaction
    from django.test import TestCase, TransactionTestCase

    def post(client, path):
        sent = duly.sign("stripe", b'{"id": "evt_1", "type": "a"}', "whsec_x", id="evt_1")
        headers = dict(sent.headers)
        answer = client.post(
            f"/hooks/{path}", sent.body, content_type="application/json", headers=headers
        )
        return answer.status_code, answer.json().get("status")

    def count(table):
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM {table}")
            return cursor.fetchone()[0]

    class Site:
        def test_a_delivery_is_accepted_and_copies_are_not(self):
            self.check_delivery()

        def test_a_delivery_is_accepted_in_every_other_test(self):
            self.check_delivery()

        def check_delivery(self):
            self.assertEqual(post(self.client, "now"), (200, "accepted"))
            self.assertEqual(post(self.client, "now"), (200, "duplicate"))
            self.assertEqual(count("shop_payment"), 1)

        def test_a_view_enqueues_in_its_block(self):
            self.assertEqual(self.client.get("/buy/b1").status_code, 200)
            self.assertEqual((count("shop_payment"), count("duly_jobs")), (1, 2))

    class SiteInTestCase(Site, TestCase):
        def test_a_delivery_inside_a_block_of_the_test_is_refused(self):
            with transaction.atomic():
                self.assertEqual(post(self.client, "now")[0], 503)
            self.assertEqual(count("shop_payment"), 0)

    class SiteInTransactions(Site, TransactionTestCase):
        def test_a_delivery_whose_job_waits(self):
            self.assertEqual(post(self.client, "stripe"), (200, "accepted"))
            self.assertEqual(count("duly_jobs"), 1)

        def test_the_same_delivery_in_every_other_test(self):
            self.test_a_delivery_whose_job_waits()
"""
CONFTEST = """
    import pytest
    from duly import testing

    @pytest.fixture
    def duly_url(transactional_db):
        return testing.django_test_database("default")
"""
WITH_FIXTURES = """
    import duly
    import pytest
    from django.core.wsgi import get_wsgi_application
    from duly.testing import django_test_database
    from shop.models import Payment

    EVENT = {"id": "evt_1", "type": "a"}

    # While tests are collected, Django's database is still the real one.
    with pytest.raises(duly.errors.UsageError, match="not the one that its test runner makes"):
        django_test_database("default")

    @pytest.mark.parametrize("number", [1, 2])
    def test_duly_is_empty_in_every_test(deliver, run_jobs, number):
        assert deliver("stripe", EVENT, times=2).words == ["accepted", "duplicate"]
        assert run_jobs().done == ["record"]
        assert Payment.objects.count() == 1

    @pytest.mark.parametrize("number", [1, 2])
    def test_a_delivery_goes_through_the_site(deliver, number):
        site = get_wsgi_application()
        assert deliver("now", EVENT, site=site, path="/hooks/now").word == "accepted"
        assert deliver("now", EVENT, site=site, path="/hooks/now/").word == "duplicate"
        assert Payment.objects.count() == 1

    def test_a_transaction_that_is_rolled_back_is_refused(db):
        with pytest.raises(duly.errors.UsageError, match="transactional_db"):
            django_test_database("default")
"""


@pytest.fixture
def settings(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """An entry of DATABASES; a test may not leave anything in the real database."""
    if kind == "sqlite":
        yield {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(tmp_path / "real.db"),
            "TEST": {"NAME": str(tmp_path / "test.db")},
        }
        assert not (tmp_path / "real.db").exists()
        return
    url = request.getfixturevalue("empty_postgres_url")
    yield database(url)
    with psycopg.connect(url) as connection:
        tables = "SELECT count(*) FROM pg_tables WHERE tablename LIKE 'duly%'"
        assert connection.execute(tables).fetchall() == [(0,)]
        left = "SELECT datname FROM pg_database WHERE datname LIKE %s"
        assert connection.execute(left, [f"test_{database_of(url)}%"]).fetchall() == []


def run(folder: Path, *words: str, ends: int = 0) -> str:
    """Run a program in a project, as its user does; what it wrote."""
    told = {**os.environ, "PYTHONPATH": str(folder), "DJANGO_SETTINGS_MODULE": "settings"}
    for name in ("DJANGO_ALLOW_ASYNC_UNSAFE", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        told.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", *words],
        cwd=folder,
        env=told,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == ends, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.wide
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("sqlite", []),
        ("postgres", []),
        ("postgres", ["--parallel", "2"]),
        ("postgres", ["--keepdb"]),
    ],
)
def test_manage_py_test_runs_an_app_that_is_bound_to_the_test_database(
    settings: dict[str, Any], options: list[str], tmp_path: Path
) -> None:
    lay_out(tmp_path, settings, {"shop/tests.py": BOUND})
    assert "Ran 6 tests" in run(tmp_path, "manage.py", "test", *options)
    if "--keepdb" in options:  # the next run finds it, and drops it
        run(tmp_path, "manage.py", "test", "--noinput")


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.wide)])
def test_manage_py_test_runs_a_site_whose_app_is_made_on_the_test_database(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    lay_out(tmp_path, settings | {"ATOMIC_REQUESTS": True}, {"shop/tests.py": SITE})
    assert "Ran 9 tests" in run(tmp_path, "manage.py", "test")


def test_a_site_that_is_tested_in_memory_is_told_how_to_test_in_a_file(tmp_path: Path) -> None:
    """As `startproject` sets it up: the app is made by urls.py, on a test database in memory."""
    settings = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "real.db")}
    lay_out(tmp_path, settings, {"shop/tests.py": SITE})
    told = run(tmp_path, "manage.py", "test", ends=1)
    assert """write "TEST": {"NAME": "test.sqlite3"} into DATABASES['default']""" in told


@pytest.mark.wide
@pytest.mark.parametrize(
    ("kind", "options"), [("sqlite", []), ("postgres", []), ("postgres", ["-n", "2"])]
)
def test_pytest_django_runs_the_fixtures_of_duly(
    settings: dict[str, Any], options: list[str], tmp_path: Path
) -> None:
    lay_out(tmp_path, settings, {"conftest.py": CONFTEST, "test_shop.py": WITH_FIXTURES})
    ini = '[tool.pytest.ini_options]\nduly_app = "shop.hooks:app"\n'
    (tmp_path / "pyproject.toml").write_text(ini)
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *options)
    assert "5 passed" in run(tmp_path, *words)
