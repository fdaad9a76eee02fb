"""The fixtures in a project of Django's, with what pytest-django would bring."""

import os

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

SETTINGS = """
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": "real.db",
            "TEST": {"NAME": "test.db"},
        },
        "memory": {"ENGINE": "django.db.backends.sqlite3", "NAME": "other.db"},
    }
    ROOT_URLCONF = "urls"
    SECRET_KEY = "of-tests"
    USE_TZ = True
"""
SHOP = """
    import django

    django.setup()

    import duly
    from django.db import connection

    app = duly.Duly(begin=duly.django("default"))
    app.source("stripe", secret="whsec_x")
    app.source("now", provider="stripe", secret="whsec_x", inline=True)

    @app.on("stripe")
    @app.on("now")
    def record(event, tx):
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO paid (id) VALUES (%s)", [event.id])
"""
URLS = """
    import shop
    from django.urls import include, path
    from duly.edge.adapters import django

    urlpatterns = [path("hooks/", include(django.urls(shop.app)))]
"""
CONFTEST = """
    import django
    import pytest
    from django.db import connection
    from django.test.utils import setup_databases, setup_test_environment
    from django.test.utils import teardown_databases, teardown_test_environment
    from duly.tools import testing

    django.setup()

    @pytest.fixture(scope="session")
    def django_databases():  # what pytest-django does
        setup_test_environment()
        made = setup_databases(verbosity=0, interactive=False)
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE paid (id text)")
        yield
        connection.close()
        teardown_databases(made, verbosity=0)
        teardown_test_environment()

    @pytest.fixture
    def duly_url(django_databases):
        return testing.django_test_database("default")
"""
TESTS = """
    from pathlib import Path

    import duly
    import pytest
    from django.core.wsgi import get_wsgi_application
    from django.db import connection, transaction
    from duly.tools.testing import django_test_database

    EVENT = {"id": "evt_1", "type": "a"}

    def paid():
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM paid")
            return cursor.fetchone()[0]

    def test_the_real_database_is_refused():  # before anybody asks for Django's fixture
        with pytest.raises(duly.Misuse, match="not the one that its test runner makes"):
            django_test_database("default")

    @pytest.mark.parametrize("number", [1, 2])
    def test_duly_is_empty_in_every_test(deliver, run_jobs, number):
        before = paid()
        assert deliver("stripe", EVENT, times=2).words == ["accepted", "duplicate"]
        assert run_jobs().done == ["record"]
        assert deliver("now", EVENT, times=2).words == ["accepted", "duplicate"]
        assert paid() == before + 2
        assert not Path("real.db").exists()

    def test_a_delivery_goes_through_the_site(deliver):
        site = get_wsgi_application()
        assert deliver("now", EVENT, site=site, path="/hooks/now").word == "accepted"
        assert deliver("now", EVENT, site=site, path="/hooks/now/").word == "duplicate"

    def test_a_transaction_that_is_rolled_back_is_refused(django_databases):
        with transaction.atomic(), pytest.raises(duly.Misuse, match="transactional_db"):
            django_test_database("default")

    def test_an_in_memory_database_is_refused(django_databases):
        with pytest.raises(duly.Misuse, match="TEST.*test.sqlite3"):
            django_test_database("memory")
"""


def test_it_serves_an_application_in_djangos_transactions(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(settings=SETTINGS, shop=SHOP, urls=URLS, conftest=CONFTEST, test_shop=TESTS)
    pytester.makepyprojecttoml('[tool.pytest.ini_options]\nduly_app = "shop:app"')
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "settings")
    monkeypatch.setenv("PYTHONPATH", str(pytester.path), prepend=os.pathsep)
    words = ("-p", "duly_pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "-W", "error")
    pytester.runpytest_subprocess(*words).assert_outcomes(passed=6)
