"""``duly prune``: remove claims, bodies and events whose time is over, chunk by chunk."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from duly.app.output import Progress, add_json_option, print_answer
from duly.cli.options import add_target_options, open_store, require_target
from duly.core.defaults import PRUNE_CHUNK
from duly.core.onestep import finish
from duly.idempotency import prune
from duly.inbox.retention import prune_bodies, prune_counters, prune_events
from duly.jobs.workers import prune_effects, prune_history, prune_workers

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from duly.stores.store import Store

EXAMPLES = """\
examples:
  duly prune shop:app
  duly prune postgresql://shop@db/shop
  DULY_URL=sqlite:///shop.db duly prune --json

Each chunk is a transaction of its own that holds its locks for milliseconds: run it beside live
traffic, from cron or by hand, and interrupt it whenever you like."""

SINGULAR = {"claims": "claim", "bodies": "body", "events": "event", "counters": "counter"}
CHUNKS: dict[str, Callable[[Store, int], int]] = {
    "claims": lambda store, limit: prune(store, limit=limit),
    "bodies": lambda store, limit: finish(prune_bodies(store.sync_runner, limit)),
    "events": lambda store, limit: finish(prune_events(store.sync_runner, limit)),
    "counters": lambda store, limit: finish(prune_counters(store.sync_runner, limit)),
    "history": lambda store, limit: finish(prune_history(store.sync_runner, limit)),
    "effects": lambda store, limit: finish(prune_effects(store.sync_runner, limit)),
    "workers": lambda store, limit: finish(prune_workers(store.sync_runner, limit)),
}


def add(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add_target_options(parser)
    parser.add_argument(
        "--limit",
        type=int,
        default=PRUNE_CHUNK,
        metavar="N",
        help=f"how many rows one transaction touches at most (default {PRUNE_CHUNK:,})",
    )
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Delete in chunks, and print how many rows went."""
    with open_store(arguments, require_target(arguments.app)) as store, Progress() as progress:
        pruned = {
            what: prune_all(partial(chunk, store, arguments.limit), what, progress)
            for what, chunk in CHUNKS.items()
        }
    text = ", ".join(f"{n:,} {SINGULAR[what] if n == 1 else what}" for what, n in pruned.items())
    print_answer(arguments, f"pruned {text}", {**pruned})
    return 0


def prune_all(chunk: Callable[[], int], what: str, progress: Progress) -> int:
    """Prune until a chunk is empty: a short one may only have met locked rows."""
    total = 0
    while n := chunk():
        total += n
        progress.show(f"pruned {total:,} {what} so far")
    return total
