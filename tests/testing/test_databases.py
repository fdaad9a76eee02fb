"""Every test has a database of its own, and no other database is touched."""

from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

import duly
from duly.testing import Databases, Deliver, RunJobs, RunRelay, isolated, test_database
from duly.testing.databases import url_of_database
from duly.testing.guard import NotATestDatabase, database_identity, is_for_tests
from tests.support.servers import database
from tests.testing.shops import PAID, a_shop, payments, tables


def names_on(server: str) -> set[str]:
    """The databases of the plugin that are on a server."""
    with psycopg.connect(server) as connection:
        rows = connection.execute(
            "SELECT datname FROM pg_database WHERE datname LIKE 'duly_test_%'"
        )
        return {name for (name,) in rows}


def tables_of(url: str) -> int:
    with psycopg.connect(url) as connection:
        [(count,)] = connection.execute(
            "SELECT count(*) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', "
            "'information_schema')"
        )
        return int(count)


def test_a_file_is_made_for_a_test_and_gone_with_it() -> None:
    with Databases().fresh() as url:
        with duly.store(url) as store:
            assert store.version() > 0
        file = Path(database_identity(url)[1])
        assert file.exists()
        assert is_for_tests(url)
    assert not file.parent.exists()
    assert not is_for_tests(url)


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("postgresql:///postgres", "postgresql:///shop"),
        ("postgresql:///postgres?host=/tmp", "postgresql:///shop?host=/tmp"),
        ("postgresql://ada:x@db:5433", "postgresql://ada:x@db:5433/shop"),
    ],
)
def test_a_server_may_be_named_without_a_host(server: str, expected: str) -> None:
    assert url_of_database(server, "shop") == expected


def test_the_databases_of_two_tests_are_two(shop: duly.Duly) -> None:
    for _ in range(2):
        with isolated(shop) as trial:
            tables(trial)
            assert trial.deliver("now", PAID).word == "accepted"
            assert payments(trial) == ["evt_1"]


def test_the_applications_own_database_is_never_touched(shop: duly.Duly, tmp_path: Path) -> None:
    own = shop.store
    with isolated(shop) as trial:
        tables(trial)
        trial.deliver("stripe", PAID)
        trial.run_jobs()
        trial.run_relay()
        assert shop.store is not own
    assert shop.store is own
    assert list(tmp_path.glob("real.db*")) == []


def test_a_database_on_a_server_is_made_for_a_test_and_gone_with_it(
    shop: duly.Duly, postgres_server: str
) -> None:
    with database(postgres_server) as server:  # one of our own, to see that nothing is written
        before = names_on(server)
        databases = Databases(server)
        with databases.fresh() as first, databases.fresh() as second:
            made = names_on(server) - before
            assert {urlsplit(url).path[1:] for url in (first, second)} < made  # and a template
            with isolated(shop, url=first) as trial:
                tables(trial)
                trial.deliver("stripe", PAID, times=2)
                assert trial.run_jobs().done == ["record"]
                assert payments(trial) == ["evt_1"]
            with duly.store(second) as store:
                assert store.version() > 0  # with duly's tables already
        databases.close()
        assert names_on(server).isdisjoint(made)
        assert tables_of(server) == 0


def test_a_role_that_may_not_create_databases_is_told_so(postgres_server: str) -> None:
    with database(postgres_server) as url, psycopg.connect(url, autocommit=True) as connection:
        role = Identifier(f"poor_{urlsplit(url).path[-8:]}")
        connection.execute(SQL("CREATE ROLE {} LOGIN").format(role))
        try:
            connection.execute(SQL("SET ROLE {}").format(role))
            poor = f"{url}{'&' if '?' in url else '?'}options=-crole%3D{role.as_string()[1:-1]}"
            with (
                pytest.raises(duly.errors.UsageError, match="may not create databases"),
                Databases(poor).fresh(),
            ):
                pytest.fail("it has no right to that")
        finally:
            connection.execute("RESET ROLE")
            connection.execute(SQL("DROP ROLE {}").format(role))


def test_a_server_that_is_away_is_told_in_one_line() -> None:
    with (
        pytest.raises(duly.errors.UsageError, match="PostgreSQL server for tests cannot be used"),
        Databases("postgresql://nobody@127.0.0.1:9/postgres").fresh(),
    ):
        pytest.fail("nobody is there")


@pytest.mark.parametrize("url", ["sqlite:///shop.db", "mysql://localhost/shop", "shop", "http://["])
def test_only_a_server_can_be_named_for_tests(url: str) -> None:
    with pytest.raises(duly.errors.UsageError, match="PostgreSQL server"):
        Databases(url)


def test_an_application_on_another_database_is_refused(shop: duly.Duly, tmp_path: Path) -> None:
    for call in (lambda: Deliver(shop)("stripe"), RunJobs(shop), RunRelay(shop)):
        with pytest.raises(NotATestDatabase, match=r"real\.db, which no test may write to"):
            call()
    assert list(tmp_path.glob("real.db*")) == []


def test_what_ends_with_the_process_may_be_written_to() -> None:
    app = duly.Duly("memory:")
    app.source("stripe", secret="whsec_x")
    assert Deliver(app)("stripe").word == "ignored"
    app.close()


def test_a_database_that_somebody_calls_a_tests_may_be_written_to(
    shop: duly.Duly, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'other.db'}"
    with pytest.raises(duly.errors.UsageError, match="PostgreSQL server"), isolated(shop, url=url):
        pytest.fail("nobody said so")
    with isolated(shop, url=test_database(url)) as trial:
        assert trial.deliver("stripe").status == 200
    assert (tmp_path / "other.db").exists()  # nobody but its owner removes it


def test_one_database_is_known_however_its_address_is_written(tmp_path: Path) -> None:
    spelled = "postgresql://ann:secret@db.example:5432/shop"
    assert database_identity(spelled) == database_identity(
        "postgres://ann@/shop?host=db.example&connect_timeout=5"
    )
    assert database_identity(spelled) != database_identity("postgresql://ann@db.example/shop_test")
    assert database_identity(f"sqlite:///{tmp_path}/a.db") == database_identity(
        f"sqlite:///{tmp_path}/../{tmp_path.name}/a.db"
    )


def test_tables_may_have_other_names(tmp_path: Path, own_postgres_url: str) -> None:
    app = a_shop(tmp_path, prefix="hooks_")
    for url in (None, test_database(own_postgres_url)):
        with isolated(app, url=url) as trial:
            tables(trial)
            assert trial.deliver("now", PAID).word == "accepted"
            with trial.app.transaction() as tx:
                [row] = tx.execute("SELECT count(*) AS events FROM hooks_events")
            assert row["events"] == 1


@pytest.mark.parametrize("word", ["dbname=shop_production", "service=shop"])
def test_an_address_whose_query_leads_elsewhere_is_refused(word: str) -> None:
    with pytest.raises(duly.errors.UsageError, match="in the path"):
        Databases(f"postgresql://localhost/postgres?{word}")
