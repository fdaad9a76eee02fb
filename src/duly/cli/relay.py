"""``duly relay``: send the messages of one application, beside or without a server."""

from __future__ import annotations

import logging
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING

from duly.app.loading import FORMS, VARIABLE, add_optional_argument, app_name
from duly.cli.options import (
    add_grace,
    add_log_options,
    add_relay_lease,
    add_until_idle,
    refuse_memory_store,
    whole_number,
)
from duly.core.extras import install_command
from duly.relay.settings import CONCURRENCY, GRACE, MOST_AT_ONCE, PER_DESTINATION, relay_settings
from duly.server.banner import store_address
from duly.server.logging import load_app_and_log
from duly.server.services import relay_members, relay_service, relay_text
from duly.server.shutdown import MESSAGES, run_service

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from duly.app.duly import Duly
    from duly.relay.settings import RelaySettings
    from duly.relay.stats import Relayed
    from duly.service.service_thread import ServiceThread

EXAMPLES = f"""\
examples:
  duly relay shop:app                 {CONCURRENCY} at a time, {PER_DESTINATION} of them to one host
  duly relay shop:app --concurrency 200 --per-destination 4
  duly relay shop:app --until-idle    send what can be sent now, and end
  {VARIABLE}=shop:app duly relay --log-json

`duly serve` has a relay in it; this is for more of them, on any machine that
reaches the database, and for applications that are served by another server.
A message may arrive twice, and then with the same Idempotency-Key.
SIGTERM and SIGINT (Ctrl-C) drain: no more messages are taken, those on their
way are waited for, those that are not through in time are given back, and the
exit code is 0. A second signal gives them back now. `duly outbox` tells what
is left."""
logger = logging.getLogger("duly.relay")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add_optional_argument(parser, "app", f"whose messages to send: {FORMS} (or {VARIABLE})")
    parser.add_argument(
        "--concurrency",
        type=whole_number("a number of messages", 1, MOST_AT_ONCE),
        default=CONCURRENCY,
        metavar="N",
        help=f"how many messages are on their way at the same time (default {CONCURRENCY})",
    )
    parser.add_argument(
        "--per-destination",
        type=whole_number("a number of messages", 1, MOST_AT_ONCE),
        default=PER_DESTINATION,
        metavar="N",
        help=f"how many of them to one host; a transport has its own (default {PER_DESTINATION})",
    )
    add_relay_lease(parser, "--lease", "this relay")
    add_grace(parser, "messages on their way", GRACE)
    add_until_idle(parser)
    add_log_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Load the application, open its store, and send its messages until a signal."""
    name = app_name(arguments.app)
    app = load_app_and_log(name, level=arguments.log_level, as_json=arguments.log_json)
    refuse_memory_store(app, "relay")
    settings = relay_settings(
        arguments.concurrency,
        arguments.per_destination,
        arguments.lease,
        timedelta(seconds=arguments.grace),
    )
    app.store.open()

    def make(on_end: Callable[[], None]) -> ServiceThread[Relayed]:
        announce(name, app, settings)
        return relay_service(app, settings, on_end=on_end, until=arguments.until)

    return run_service(app, make, arguments.grace, MESSAGES)


def announce(name: str, app: Duly, settings: RelaySettings) -> None:
    """Log how messages are sent, and where they may go."""
    registry = app.registries.outbox
    members = {"app": name, "store": store_address(app), **relay_members(registry, settings)}
    text = relay_text(registry, settings)
    logger.info("relaying for %s, %s", name, text, extra={"members": members})
    if find_spec("httpx") is None:
        logger.warning(
            f"httpx is not installed, so messages to URLs wait: {install_command('http')}"
        )
