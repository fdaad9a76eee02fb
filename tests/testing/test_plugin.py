"""The fixtures, in projects of users: real runs of pytest in processes of their own."""

import re
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

WITH_PLUGIN = ("-p", "duly_pytest", "-p", "no:cacheprovider")
SHOP = """
    import duly

    app = duly.Duly("sqlite:///real.db")
    app.source("stripe", secret="whsec_x")
    app.source("now", provider="stripe", secret="whsec_x", inline=True)
    app.signer("ours", secret="whsec_c2hvcA==")

    @app.on("stripe", "invoice.paid")
    async def record(event, tx):
        await tx.execute("INSERT INTO paid (id) VALUES (:id)", id=event.id)
        await tx.send("https://books.example/", json=event.id, sign="ours")

    @app.on("now")
    def record_now(event, tx):
        tx.execute("INSERT INTO paid (id) VALUES (:id)", id=event.id)

    @app.cron("0 * * * *")
    def hourly(job):
        pass
"""
CONFTEST = """
    import pytest

    @pytest.fixture
    def duly_app(duly_app):
        with duly_app.transaction() as tx:
            tx.execute("CREATE TABLE paid (id text)")
        return duly_app

    @pytest.fixture
    def anyio_backend():
        return "asyncio"
"""
TESTS = """
    import asyncio
    from datetime import UTC, datetime, timedelta
    from pathlib import Path

    import pytest

    import shop

    PAID = {"id": "evt_1", "type": "invoice.paid"}

    def paid():
        with shop.app.transaction() as tx:
            return [row["id"] for row in tx.execute("SELECT id FROM paid")]

    @pytest.fixture(autouse=True)
    def real_database_untouched():
        yield
        assert not Path("real.db").exists()

    @pytest.mark.parametrize("number", [1, 2])
    def test_a_duplicate_is_harmless_in_every_test_anew(deliver, run_jobs, duly_app, number):
        assert deliver("stripe", PAID, times=2).words == ["accepted", "duplicate"]
        assert run_jobs().done == ["record"]
        assert duly_app is shop.app
        assert paid() == ["evt_1"]

    @pytest.mark.anyio
    async def test_awaited(deliver, run_jobs, run_relay, sent_messages):
        answers = await deliver.aio("stripe", PAID, times=10, at_once=True)
        assert answers.counts == {"accepted": 1, "duplicate": 9}
        assert (await run_jobs.aio()).done == ["record"]
        [message] = await run_relay.aio()
        assert sent_messages == [message]
        await shop.app.aio.send("https://books.example/", json=2)

    def test_an_event_loop_that_comes_and_goes(deliver, run_jobs):
        asyncio.run(deliver.aio("now", PAID))
        assert paid() == ["evt_1"]
        assert run_jobs().done == []

    def test_many_at_once(deliver):
        assert deliver("now", PAID, times=10, at_once=True).counts["accepted"] == 1

    def test_the_clock(duly_app, run_jobs, run_relay, clock, duly_clock):
        assert clock is duly_clock
        clock.move_to(datetime(2026, 1, 1, 12, 30, tzinfo=UTC))
        assert run_jobs().done == []
        clock.advance(hours=1)
        assert run_jobs().done == ["hourly"]
        duly_app.enqueue("hourly", delay=timedelta(minutes=10))
        assert run_jobs(until="settled").done == ["hourly"]
        duly_app.send("https://books.example/", json=1, delay=timedelta(minutes=10))
        assert len(run_relay(until="settled")) == 1
"""
STRICT = """
    [tool.pytest.ini_options]
    duly_app = "shop:app"
    filterwarnings = ["error"]
    addopts = ["--strict-config", "--strict-markers"]
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project of the user's, with warnings as errors."""
    pytester.makepyfile(shop=SHOP, test_shop=TESTS)
    pytester.makeconftest(CONFTEST)
    pytester.makepyprojecttoml(STRICT)
    return pytester


@pytest.mark.parametrize("way", ["postgres", pytest.param("two processes", marks=pytest.mark.wide)])
def test_every_fixture_works_in_a_project_that_makes_errors_of_warnings(
    way: str, project: pytest.Pytester, request: pytest.FixtureRequest
) -> None:
    words = ("-n", "2")
    if way == "postgres":
        words = ("--duly-url", request.getfixturevalue("postgres_server"))
    project.runpytest_subprocess(*WITH_PLUGIN, *words).assert_outcomes(passed=6)


@pytest.mark.wide
def test_a_run_that_does_not_use_it_does_not_load_duly(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing_is_loaded():
            assert "duly_pytest" in sys.modules
            assert not {"duly", "httpx", "psycopg", "sqlite3"} & set(sys.modules)
        """
    )
    ran = pytester.runpytest_subprocess(*WITH_PLUGIN, "-p", "no:randomly", "-W", "error")
    ran.assert_outcomes(passed=1)


@pytest.mark.wide
def test_the_user_says_which_application_and_how_it_is_made(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(shop=SHOP, other=SHOP)
    pytester.makepyfile(
        test_other="""
        import pytest

        @pytest.fixture
        def duly_app_path():
            return "other.py:app"

        @pytest.mark.parametrize("number", [1, 2])
        def test_by_another_name(duly_app, deliver, number):
            import other

            assert duly_app is other.app
            assert deliver("stripe", {"id": "evt_1", "type": "b"}).word == "ignored"
        """,
        test_made="""
        import duly
        import pytest

        def make_app(url, **options):
            app = duly.Duly(url, **options)
            app.source("stripe", secret="whsec_x")
            app.on("stripe")(handle)
            return app

        def handle(event, tx): ...

        @pytest.fixture
        def duly_app(duly_url, duly_clock):
            app = make_app(duly_url, clock=duly_clock)
            yield app
            app.close()

        @pytest.fixture
        def clock():  # of the user's own, for something else
            return "12:00"

        def test_a_factory_is_called_for_each_test(deliver, run_jobs, clock):
            assert clock == "12:00"
            assert deliver("stripe", times=2).words == ["accepted", "duplicate"]
            assert run_jobs().done == ["handle"]
        """,
    )
    pytester.runpytest_subprocess(*WITH_PLUGIN, "-W", "error").assert_outcomes(passed=3)


@pytest.mark.wide
def test_every_mistake_is_told_in_a_sentence(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        shop=SHOP,
        broken="import nothing_of_this_name",
        test_mistakes="""
        import duly
        import pytest

        class Made:
            @pytest.fixture
            def duly_url(self):
                return "memory:"

        class TestNoApp(Made):
            def test_it(self, duly_app): ...

        class TestBroken(Made):
            @pytest.fixture
            def duly_app_path(self):
                return "broken:app"

            def test_it(self, duly_app): ...

        class TestNoServer:
            def test_it(self, duly_url): ...

        class TestRealDatabase:
            @pytest.fixture
            def duly_app(self):
                import shop

                return shop.app

            def test_it(self, deliver):
                with pytest.raises(duly.errors.UsageError, match="real.db, which no test may"):
                    deliver("stripe")
        """,
    )
    words = ("--duly-url", "sqlite:///shop.db")
    ran = pytester.runpytest_subprocess(*WITH_PLUGIN, *words)
    ran.assert_outcomes(errors=3, passed=1)
    told = re.sub(r"\s+", " ", ran.stdout.str())
    assert 'which application? Write duly_app = "shop:app"' in told
    assert "broken cannot be imported: ModuleNotFoundError" in told
    assert "the database for tests: leave it out (or say memory:)" in told
    assert "Traceback" not in told
    assert "another exception occurred" not in told
    assert not Path(pytester.path, "real.db").exists()


@pytest.mark.wide
def test_a_test_that_fails_shows_no_warning_about_workers(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        shop=SHOP,
        test_shop="""
        import pytest

        import duly
        import shop

        PAID = {"id": "evt_1", "type": "invoice.paid"}

        def test_its_own(deliver):
            assert deliver("stripe", PAID).word == "duplicate"

        class TestMade:
            @pytest.fixture
            def duly_app(self, duly_url):
                app = duly.Duly(duly_url)
                app.source("stripe", secret="whsec_x")
                app.on("stripe")(self.record)
                yield app
                app.close()

            def record(self): ...

            def test_made(self, deliver):
                assert deliver("stripe", PAID).word == "duplicate"
        """,
    )
    ran = pytester.runpytest_subprocess(*WITH_PLUGIN, "-o", "duly_app=shop:app")
    ran.assert_outcomes(failed=2)
    assert "no worker is alive" not in ran.stdout.str()


def test_it_serves_unittest(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        shop=SHOP,
        test_shop="""
        import unittest

        from duly.testing import isolated

        class Blocking(unittest.TestCase):
            def setUp(self):
                self.trial = self.enterContext(isolated("shop:app"))

            def test_a_duplicate(self):
                answers = self.trial.deliver("stripe", times=2)
                self.assertEqual(answers.counts, {"ignored": 1, "duplicate": 1})

        class Awaited(unittest.IsolatedAsyncioTestCase):
            def setUp(self):
                self.trial = self.enterContext(isolated("shop:app"))

            async def test_a_duplicate(self):
                answers = await self.trial.deliver.aio("stripe", times=2)
                self.assertEqual(answers.counts, {"ignored": 1, "duplicate": 1})
                self.assertEqual((await self.trial.run_jobs.aio()).done, [])
        """,
    )
    ran = pytester.run(sys.executable, "-W", "error", "-m", "unittest", "-v")
    assert ran.ret == 0, ran.stderr.str()
    ran.stderr.fnmatch_lines(["Ran 2 tests in *", "OK"])
