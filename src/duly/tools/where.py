"""Where a command works: the address and the table names, as told or from the environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from duly._kernel.errors import Misuse
from duly.stores.opening import FORMS, store

if TYPE_CHECKING:
    import argparse

    from duly.stores.base import Store

URL_VARIABLE = "DULY_URL"


def add_store_options(parser: argparse.ArgumentParser) -> None:
    """The address and the names that every command on a database takes."""
    parser.add_argument(
        "url",
        nargs="?",
        metavar="URL",
        help=f"the database, as in sqlite:///shop.db; if not given, {URL_VARIABLE} says it",
    )
    parser.add_argument("--prefix", help="what table names start with (DULY_PREFIX, else duly_)")
    parser.add_argument("--schema", help="PostgreSQL schema of the tables (DULY_SCHEMA)")
    parser.add_argument(
        "--durability",
        choices=("required", "any"),
        default="required",
        help="any: accept a PostgreSQL server that may lose what it acknowledged",
    )


def address(arguments: argparse.Namespace) -> str:
    """The address of the database."""
    url: str = arguments.url or os.environ.get(URL_VARIABLE, "")
    if not url:
        raise Misuse(f"which database? Give its URL, or set {URL_VARIABLE}: {FORMS}")
    return url


def lasting_store(arguments: argparse.Namespace) -> Store:
    """The store at the address, not connected yet; one that ends with this command is refused."""
    url = address(arguments)
    if url == "memory:":
        raise Misuse("a memory: store ends with its process, so there is nothing to work on here")
    return store(
        url,
        prefix=arguments.prefix,
        schema=arguments.schema,
        durability=arguments.durability,
    )
