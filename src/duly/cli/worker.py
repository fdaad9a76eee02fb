"""``duly worker``: run the jobs of one application, beside or without a server."""

from __future__ import annotations

import argparse
import logging
from typing import TYPE_CHECKING

from duly.app.loading import FORMS, VARIABLE, add_optional_argument, app_name
from duly.cli.options import (
    add_concurrency,
    add_grace,
    add_log_options,
    add_until_idle,
    add_worker_lease,
    refuse_memory_store,
    whole_number,
)
from duly.core.errors import UsageError
from duly.jobs.handlers import checked_queue
from duly.server.banner import store_address
from duly.server.logging import load_app_and_log
from duly.server.services import plan_worker, worker_service
from duly.server.shutdown import run_service
from duly.worker.settings import GRACE, MOST_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.app.duly import Duly
    from duly.server.services import WorkerPlan
    from duly.service.service_thread import ServiceThread
    from duly.worker.stats import Worked

EXAMPLES = f"""\
examples:
  duly worker shop:app                       the jobs of all its queues, ten of each at a time
  duly worker shop:app --queue mail=2 --queue default
  duly worker shop:app --until-idle          do what there is to do, and end
  {VARIABLE}=shop:app duly worker --concurrency 50 --log-json

`duly serve` has a worker in it; this is for more of them, on any machine that reaches the database,
and for applications that are served by another server.
SIGTERM and SIGINT (Ctrl-C) drain: no more jobs are taken, those that run are finished, those that
do not finish in time are given back, and the exit code is 0. A second signal gives them back now.
Handlers that hang for longer than their timeout cannot be ended: after three of them the process
restarts."""
logger = logging.getLogger("duly.worker")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add_optional_argument(parser, "app", f"whose jobs to run: {FORMS} (or {VARIABLE})")
    add_concurrency(parser)
    parser.add_argument(
        "--queue",
        action="append",
        type=queue,
        metavar="NAME[=N]",
        help="only the jobs of this queue, N at a time; may be given several times",
    )
    add_worker_lease(parser, "this worker")
    add_grace(parser, "jobs", GRACE)
    add_until_idle(parser)
    add_log_options(parser)


def queue(text: str) -> tuple[str, int | None]:
    """Parse a queue, and how many of its jobs run at the same time, for argparse."""
    name, equals, count = text.partition("=")
    try:
        checked_queue(name)
    except UsageError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
    return name, whole_number("a number of jobs", 1, MOST_AT_ONCE)(count) if equals else None


def run(arguments: argparse.Namespace) -> int:
    """Load the application, open its store, and run its jobs until a signal."""
    name = app_name(arguments.app)
    app = load_app_and_log(name, level=arguments.log_level, as_json=arguments.log_json)
    refuse_memory_store(app, "worker")
    plan = checked_plan(name, app, arguments)
    app.store.open()

    def make(on_end: Callable[[], None]) -> ServiceThread[Worked]:
        announce(name, app, plan)
        settings = plan.settings(arguments.grace, arguments.lease)
        return worker_service(app, settings, on_end=on_end, until=arguments.until)

    return run_service(app, make, arguments.grace)


def checked_plan(name: str, app: Duly, arguments: argparse.Namespace) -> WorkerPlan:
    """Plan the worker; refuse one that could do nothing."""
    queues = None if arguments.queue is None else dict(arguments.queue)
    plan = plan_worker(app, arguments.concurrency, queues)
    if plan is None:
        raise UsageError(
            f"{name} has nothing that runs as a job: add @app.job, or @app.on for a source that is "
            "not inline"
        )
    return plan


def announce(name: str, app: Duly, plan: WorkerPlan) -> None:
    """Log which queues and handlers the worker serves."""
    members = {"app": name, "store": store_address(app), **plan.members()}
    logger.info("working for %s, %s", name, plan.text(), extra={"members": members})
    if not plan.handlers:
        logger.warning("no handler of %s uses these queues: is a name mistyped?", name)
