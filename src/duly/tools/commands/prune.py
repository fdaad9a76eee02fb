"""``duly prune``: forget the claims whose time is over, chunk by chunk, until none is left."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from duly._kernel.options import PRUNE_CHUNK
from duly.tools.output import Progress, add_json_option, answer
from duly.tools.where import add_store_options, lasting_store
from duly.verbs import prune

if TYPE_CHECKING:
    import argparse

    from duly.stores.base import Store

SUMMARY = "Forget the claims whose time is over."
EXAMPLES = """\
examples:
  duly prune postgresql://shop@db/shop
  DULY_URL=sqlite:///shop.db duly prune --json

Each chunk is a transaction of its own that holds its locks for milliseconds: run it beside live
traffic, from cron or by hand, and interrupt it whenever you like."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add_store_options(parser)
    parser.add_argument(
        "--limit",
        type=int,
        default=PRUNE_CHUNK,
        metavar="N",
        help=f"how many claims one transaction deletes at most (default {PRUNE_CHUNK:,})",
    )
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Delete in chunks and say how many went."""
    with closing(lasting_store(arguments)) as store:
        store.check()  # opening a mistyped SQLite path would create an empty database
        pruned = prune_all(store, arguments.limit)
    claims = "claim" if pruned == 1 else "claims"
    answer(arguments, f"pruned {pruned:,} expired {claims}", {"pruned": pruned})
    return 0


def prune_all(store: Store, limit: int) -> int:
    """Prune until a chunk comes back empty: a short one may only have met locked rows."""
    pruned = 0
    with Progress() as progress:
        while chunk := prune(store, limit=limit):
            pruned += chunk
            progress.show(f"pruned {pruned:,} so far")
    return pruned
