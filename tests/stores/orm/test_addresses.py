"""Without a url the app goes where the ORM goes, whatever its address is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import URL, create_engine
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

import duly
from tests.stores.orm.worlds import django_alias

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

ODD = "p@ss/w:rd?#%&= é'"
SOCKET = "/var/run/postgresql"
ADDRESSES: list[tuple[dict[str, Any], dict[str, str]]] = [
    (
        {"username": "shop", "password": ODD, "host": "db", "port": 5433, "database": "orders"},
        {"user": "shop", "password": ODD, "host": "db", "port": "5433", "dbname": "orders"},
    ),
    (
        {"username": "a@b/c", "database": "or ders/ü", "query": {"host": SOCKET}},
        {"user": "a@b/c", "dbname": "or ders/ü", "host": SOCKET},
    ),
    ({"host": "::1", "database": "orders"}, {"host": "::1", "dbname": "orders"}),
    ({"database": "orders"}, {"dbname": "orders"}),
]


def reached(app: duly.Duly) -> dict[str, Any]:
    """Where libpq would go for the address of the app's store."""
    return dict(conninfo_to_dict(app.store.url))


@pytest.mark.parametrize(("parts", "expected"), ADDRESSES)
@pytest.mark.parametrize("driver", ["psycopg", "psycopg_async", "asyncpg"])
def test_an_address_of_sqlalchemys_is_libpqs(
    driver: str, parts: dict[str, Any], expected: dict[str, str]
) -> None:
    url = URL.create(f"postgresql+{driver}", **parts)
    begin: Any = (
        sessionmaker(create_engine(url))
        if driver == "psycopg"
        else async_sessionmaker(create_async_engine(url))
    )

    assert reached(duly.Duly(begin=begin)) == expected


def test_what_libpq_knows_of_a_query_is_kept_and_the_drivers_own_is_not() -> None:
    psycopg = sessionmaker(
        create_engine("postgresql+psycopg://h/d?sslmode=require&options=-csearch_path%3Dshop")
    )
    asyncpg = async_sessionmaker(
        create_async_engine("postgresql+asyncpg://h/d?ssl=require&prepared_statement_cache_size=0")
    )
    several = sessionmaker(create_engine("postgresql+psycopg://u@/d?host=a:1&host=b:2"))

    assert reached(duly.Duly(begin=psycopg)) == {
        "host": "h", "dbname": "d", "sslmode": "require", "options": "-csearch_path=shop",
    }  # fmt: skip
    assert reached(duly.Duly(begin=asyncpg)) == {"host": "h", "dbname": "d", "sslmode": "require"}
    assert reached(duly.Duly(begin=several)) == {
        "user": "u", "host": "a,b", "port": "1,2", "dbname": "d",
    }  # fmt: skip


@pytest.mark.parametrize("host", ["db.internal", SOCKET])
def test_an_address_of_djangos_is_libpqs(host: str) -> None:
    settings = {
        "USER": "a@b", "PASSWORD": ODD, "NAME": "or/ders", "HOST": host, "PORT": "5433",
        "OPTIONS": {"sslmode": "disable", "isolation_level": None, "server_side_binding": True},
    }  # fmt: skip
    with django_alias("postgresql://h/d", **settings) as alias:
        found = reached(duly.Duly(begin=duly.django.database(alias)))

    assert found == {
        "user": "a@b", "password": ODD, "dbname": "or/ders", "host": host, "port": "5433",
        "sslmode": "disable", "client_encoding": "UTF8",
    }  # fmt: skip


def test_a_service_of_djangos_is_libpqs() -> None:
    settings = {"NAME": "", "HOST": "", "OPTIONS": {"service": "shop"}}
    with django_alias("postgresql://h/d", **settings) as alias:
        found = duly.Duly(begin=duly.django.database(alias)).store.url

    assert found == "postgresql:///?service=shop&client_encoding=UTF8"


@pytest.mark.parametrize("name", ["shop.db", "my shop?#%41é.db"])
def test_a_file_with_any_name_is_the_same_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    for begin in (
        sessionmaker(create_engine(URL.create("sqlite", database=str(path)))),
        async_sessionmaker(create_async_engine(URL.create("sqlite+aiosqlite", database=str(path)))),
    ):
        with duly.Duly(begin=begin).store as store:
            assert store.version() > 0
    with django_alias("sqlite:////unused", NAME=path) as alias:
        duly.Duly(begin=duly.django.database(alias)).store.check()
    assert path.exists()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:a?uri=true"])
def test_a_database_that_only_the_orm_can_see_is_refused(url: str) -> None:
    with pytest.raises(duly.errors.UsageError, match="plain file"):
        duly.Duly(begin=sessionmaker(create_engine(url)))


def test_a_password_is_in_no_message(tmp_path: Path) -> None:
    engine = create_engine(URL.create("postgresql+psycopg", "u", ODD, "127.0.0.1", 1, "d"))
    app = duly.Duly(begin=sessionmaker(engine))

    with pytest.raises(duly.errors.StoreUnavailable) as caught:
        app.store.open()
    assert "w:rd" not in str(caught.value)
