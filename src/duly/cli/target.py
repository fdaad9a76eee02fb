"""Where a command works: an application or an address, as told or from the environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from duly.app.loading import FORMS, VARIABLE, add_optional_argument, load_app
from duly.core.errors import UsageError
from duly.stores.open import FORMS as ADDRESSES
from duly.stores.open import store

if TYPE_CHECKING:
    import argparse

    from duly.stores.store import Store

URL_VARIABLE = "DULY_URL"
PLACE = f"{FORMS}; or the address of its database ({VARIABLE} or {URL_VARIABLE} if not given)"
# An address with a slash too few is still meant as one, and opening it says how to write it.
MISSPELT = ("sqlite:/", "postgresql:/", "postgres:/")
ENDS_HERE = "a memory: store ends with its process, so there is nothing to work on here"


def add_store_options(parser: argparse.ArgumentParser) -> None:
    """The place and the names that every command on a database takes."""
    add_optional_argument(parser, "app", f"whose database: {PLACE}")
    add_table_options(parser)


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """The names of the tables, for commands that are given the address of the database."""
    parser.add_argument("--prefix", help="what table names start with (DULY_PREFIX, else duly_)")
    parser.add_argument("--schema", help="PostgreSQL schema of the tables (DULY_SCHEMA)")
    parser.add_argument(
        "--durability",
        choices=("required", "any"),
        default="required",
        help="any: accept a PostgreSQL server that may lose what it acknowledged",
    )


def named_place(given: str | None) -> str | None:
    """The application or address of the command line, or else of the environment."""
    return given or os.environ.get(VARIABLE) or os.environ.get(URL_VARIABLE) or None


def place_of(arguments: argparse.Namespace) -> str:
    """The application or the address that a command works on."""
    place = named_place(arguments.app)
    if place is None:
        raise UsageError(
            f"which database? Name the application, as in {FORMS}, or give the URL of its "
            f"database: {ADDRESSES}. {VARIABLE} and {URL_VARIABLE} can hold them"
        )
    return place


def is_address(place: str) -> bool:
    """Whether a word is the address of a database, and not an application."""
    return "://" in place or place == "memory:" or place.startswith(MISSPELT)


def store_named(arguments: argparse.Namespace, place: str) -> Store:
    """The store of an application or at an address, not connected yet."""
    if is_address(place):
        return store_at_address(arguments, place)
    return store_of_app(arguments, place)


def store_at_address(arguments: argparse.Namespace, url: str) -> Store:
    """The store at an address; one that ends with this command is refused."""
    if url == "memory:":
        raise UsageError(ENDS_HERE)
    return store(
        url,
        prefix=arguments.prefix,
        schema=arguments.schema,
        durability=arguments.durability,
    )


def store_of_app(arguments: argparse.Namespace, name: str) -> Store:
    """The database of an application."""
    if arguments.prefix is not None or arguments.schema is not None:
        raise UsageError("an application names its tables itself: leave out --prefix and --schema")
    store = load_app(name).store
    if store.url == "memory:":
        raise UsageError(ENDS_HERE)
    return store
