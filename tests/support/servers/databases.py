"""Databases that last for a test: cloned from a template, and dropped again."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg.sql import SQL, Composed, Identifier

from .memory import SHARED


def create_database(admin_url: str, template: str | None = None) -> str:
    """Create a database with a name of its own; return its URL.

    ``template`` is the name of the database to copy, the server's empty one if not given.
    """
    name = f"duly_{uuid.uuid4().hex}"
    source = Identifier(template or "template1")
    statement = SQL("create database {} template {}").format(Identifier(name), source)
    with psycopg.connect(admin_url, autocommit=True) as connection:
        connection.execute(statement + SQL(" strategy file_copy" if copies(connection) else ""))
    return on_database(admin_url, name)


def copies(connection: psycopg.Connection) -> bool:
    """Whether a clone is best made file by file: in memory, a third of the time; on disk, twice."""
    if connection.info.server_version < 150000:  # which knows no other way
        return False
    row = connection.execute("show data_directory").fetchone()
    return row is not None and Path(row[0]).is_relative_to(SHARED)


def drop_database(admin_url: str, url: str) -> None:
    """Drop the database of that URL, and whoever is still connected to it."""
    name = Identifier(database_of(url))
    _administer(admin_url, SQL("drop database if exists {} with (force)").format(name))


@contextmanager
def database(admin_url: str, template: str | None = None) -> Iterator[str]:
    """Yield the URL of a new database; drop it at the end."""
    url = create_database(admin_url, template)
    try:
        yield url
    finally:
        drop_database(admin_url, url)


@contextmanager
def template_database(admin_url: str, build: Callable[[str], None]) -> Iterator[str]:
    """Yield the name of a template that ``build`` filled, given its URL; drop it at the end."""
    with database(admin_url) as url:
        build(url)
        name = database_of(url)
        # A template can only be copied while nobody is connected to it.
        _administer(
            admin_url, SQL("alter database {} allow_connections false").format(Identifier(name))
        )
        yield name


def database_of(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


def on_database(url: str, name: str) -> str:
    """The same server and user, another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


def moved(url: str, host: str, port: int) -> str:
    """The same user and database at another address."""
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user}{at}{host}:{port}"))


def through(bouncer_url: str, url: str) -> str:
    """The URL of the same database, by way of the PgBouncer at ``bouncer_url``."""
    parts = urlsplit(bouncer_url)
    if parts.hostname is None or parts.port is None:
        raise ValueError(f"no host and port in {bouncer_url!r}")
    return moved(url, parts.hostname, parts.port)


def _administer(admin_url: str, statement: Composed) -> None:
    # Creating and dropping a database cannot be part of a transaction.
    with psycopg.connect(admin_url, autocommit=True) as connection:
        connection.execute(statement)
