"""The list of documented set-ups: every database and ORM, each kind of source, each form."""

from __future__ import annotations

import sys
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

Store = Literal["sqlite", "postgres"]
Kind = Literal["inline", "jobs", "both"]

KINDS: tuple[Kind, ...] = ("inline", "jobs", "both")
# The sources of each kind, by the names that the application files give them.
SOURCES: dict[Kind, tuple[str, ...]] = {
    "inline": ("payments",),
    "jobs": ("orders",),
    "both": ("payments", "orders"),
}
CHECKOUT = "checkout"
DULY, UVICORN, WAITRESS = ("-m", "duly"), ("-m", "uvicorn"), ("-m", "waitress")
# Options of worker and relay under faults. The default lease is 30 seconds, and a test would wait
# for it after every kill.
SHORT_LEASE = ("--lease", "3")


class Database(NamedTuple):
    """A database, the driver or ORM that leads to it, and the application written for it.

    Args:
        name: in the names of set-ups.
        store: which of duly's stores.
        scheme: what DATABASE_URL begins with.
        application: a file or a folder in ``applications``.
        sites: the forms of a user's own site around it.
        documented: the words by which the documentation names it.
    """

    name: str
    store: Store
    scheme: str
    application: str
    sites: tuple[str, ...]
    documented: tuple[str, ...]


DATABASES = (
    Database("sqlite", "sqlite", "sqlite", "own", ("wsgi", "flask"), ("sqlite",)),
    Database("sqlite-async", "sqlite", "sqlite", "own_awaited", ("fastapi",), ("sqlite",)),
    Database(
        "postgres", "postgres", "postgresql", "own", ("wsgi", "flask"), ("postgresql", "psycopg")
    ),
    Database(
        "postgres-async", "postgres", "postgresql", "own_awaited",
        ("fastapi", "fastapi-asyncpg", "fastapi-psycopg"), ("postgresql", "psycopg", "asyncpg"),
    ),
    Database(
        "sqlalchemy-pysqlite", "sqlite", "sqlite", "sqlalchemy_sessions", ("wsgi", "flask"),
        ("sqlalchemy", "sqlite"),
    ),
    Database(
        "sqlalchemy-psycopg", "postgres", "postgresql+psycopg", "sqlalchemy_sessions",
        ("wsgi", "flask"), ("sqlalchemy", "psycopg"),
    ),
    Database(
        "sqlalchemy-aiosqlite", "sqlite", "sqlite+aiosqlite", "sqlalchemy_awaited", ("fastapi",),
        ("sqlalchemy", "aiosqlite"),
    ),
    Database(
        "sqlalchemy-psycopg-async", "postgres", "postgresql+psycopg", "sqlalchemy_awaited",
        ("fastapi",), ("sqlalchemy", "psycopg"),
    ),
    Database(
        "sqlalchemy-asyncpg", "postgres", "postgresql+asyncpg", "sqlalchemy_awaited", ("fastapi",),
        ("sqlalchemy", "asyncpg"),
    ),
    Database(
        "django-sqlite", "sqlite", "sqlite", "django", ("django-wsgi", "django-asgi"),
        ("django", "sqlite"),
    ),
    Database(
        "django-postgres", "postgres", "postgresql", "django", ("django-wsgi", "django-asgi"),
        ("django", "psycopg"),
    ),
)  # fmt: skip

# The command line of the process that receives, by form; {port} is filled in.
SERVERS: dict[str, tuple[str, ...]] = {
    "serve": (*DULY, "serve", "shop:app", "--port", "{port}"),
    "split": (*DULY, "serve", "shop:app", "--port", "{port}", "--no-worker"),
    "uvicorn": (*UVICORN, "shop:app", "--port", "{port}"),
    "wsgi": (*WAITRESS, "--host=127.0.0.1", "--port={port}", "shop:app.wsgi"),
    "flask": (*WAITRESS, "--host=127.0.0.1", "--port={port}", "website:site"),
    "fastapi": (*UVICORN, "website:api", "--port", "{port}"),
    "fastapi-asyncpg": (*UVICORN, "website:api", "--port", "{port}"),
    "fastapi-psycopg": (*UVICORN, "website:api", "--port", "{port}"),
    "django-wsgi": (*WAITRESS, "--host=127.0.0.1", "--port={port}", "wsgi:application"),
    "django-asgi": (*UVICORN, "asgi:application", "--port", "{port}"),
}
COMMON_FORMS = ("serve", "split", "uvicorn")
# Forms in which the sources are mounted in a user's own site, at /hooks.
SITES = tuple(form for form in SERVERS if form not in (*COMMON_FORMS, "wsgi"))


class Command(NamedTuple):
    """One process of a set-up, as a user starts it."""

    name: str
    words: list[str]


class Setup(NamedTuple):
    """One documented set-up."""

    database: Database
    kind: Kind
    form: str

    @property
    def name(self) -> str:
        """DATABASE/KIND/FORM."""
        return f"{self.database.name}/{self.kind}/{self.form}"

    @property
    def targets(self) -> tuple[str, ...]:
        """What the senders deliver to."""
        checkout = (CHECKOUT,) if self.form in SITES else ()
        return (*SOURCES[self.kind], *checkout)

    def path_of(self, target: str) -> str:
        """Where a target is reached."""
        mounted = self.form in SITES and target != CHECKOUT
        return f"/hooks/{target}" if mounted else f"/{target}"

    def commands(self, port: int, *, faulty: bool) -> list[Command]:
        """The processes; under faults with two workers, so that one can take over."""
        server = [word.format(port=port) for word in SERVERS[self.form]]
        more = SHORT_LEASE if faulty else ()
        found = [Command("server", [sys.executable, *server])]
        if self.form != "serve" and self.kind != "inline":
            worker = [sys.executable, *DULY, "worker", "shop:app", *more]
            found += [Command(f"worker-{n + 1}", worker) for n in range(2 if faulty else 1)]
        if self.form not in ("serve", "split"):
            found.append(Command("relay", [sys.executable, *DULY, "relay", "shop:app", *more]))
        return found


def every_setup() -> list[Setup]:
    """All of them: the common forms with each kind, and the sites with both kinds."""
    return [
        setup
        for database in DATABASES
        for setup in (
            *(Setup(database, kind, form) for kind in KINDS for form in COMMON_FORMS),
            *(Setup(database, "both", form) for form in database.sites),
        )
    ]


# What CI runs: the common ones, each with a fault or without one.
QUICK = (
    ("sqlalchemy-asyncpg/both/serve", "none"),
    ("sqlalchemy-asyncpg/both/serve", "cut"),
    ("sqlalchemy-asyncpg/both/serve", "silent"),
    ("sqlalchemy-psycopg-async/both/serve", "none"),
    ("sqlalchemy-asyncpg/both/uvicorn", "kill"),
    ("sqlalchemy-psycopg/both/serve", "none"),
    ("sqlalchemy-aiosqlite/both/serve", "none"),
    ("django-postgres/both/django-wsgi", "none"),
    ("postgres-async/both/fastapi-asyncpg", "none"),
    ("postgres/both/serve", "none"),
    ("sqlite/both/serve", "none"),
    ("sqlite/both/split", "kill"),
)


def selected(patterns: list[str]) -> list[Setup]:
    """The set-ups that any of the patterns matches; all where there is none."""
    every = every_setup()
    if not patterns:
        return every
    return [one for one in every if any(matches(one.name, pattern) for pattern in patterns)]


def matches(name: str, pattern: str) -> bool:
    """True for a glob of the whole name, or for the beginning of it up to a slash."""
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}/*")
