"""``duly jobs``: how much work there is in each queue, and who works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.app.output import add_json_option, on_one_line, print_answer
from duly.cli.dead_letters import add_words, split_place_and_id, store_at
from duly.cli.tables import align_counts, format_age
from duly.cli.target import PLACE, add_table_options
from duly.core.onestep import finish
from duly.jobs.stats import count_jobs

if TYPE_CHECKING:
    import argparse

    from duly.core.json_bytes import Json
    from duly.jobs.stats import QueueStats, Stats

EXAMPLES = """\
examples:
  duly jobs shop:app
  DULY_URL=postgresql://shop@db/shop duly jobs --json

READY can run now, and OLDEST is how long the first of them could have; WAITING runs later (PARKED:
no worker knew its handler); LEASED is at work; DEAD was given up, see `duly dead`."""
HEADINGS = ("QUEUE", "READY", "OLDEST", "WAITING", "PARKED", "LEASED", "DEAD")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add_words(parser, app=f"whose jobs: {PLACE}")
    add_table_options(parser)
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Count, and say it."""
    place, _ = split_place_and_id([arguments.app])
    with store_at(arguments, place) as store:
        stats = finish(count_jobs(store.sync_runner))
    print_answer(arguments, table(stats), document(stats))
    return 0


def table(stats: Stats) -> str:
    """A line for each queue, and one for each worker."""
    lines = ["no jobs"]
    if stats.queues:
        lines = align_counts([HEADINGS, *(line(queue) for queue in stats.queues.values())])
    for worker in stats.workers:
        queues = on_one_line(", ".join(worker.queues))
        lines.append(f"worker {on_one_line(worker.host)}, process {worker.pid}: {queues}")
    return "\n".join(lines if stats.workers else [*lines, "no worker is running"])


def line(queue: QueueStats) -> tuple[str, ...]:
    """What is said of a queue."""
    numbers = (queue.waiting, queue.parked, queue.leased, queue.dead)
    return (
        on_one_line(queue.queue),
        f"{queue.ready:,}",
        format_age(queue.oldest),
        *(f"{number:,}" for number in numbers),
    )


def document(stats: Stats) -> Json:
    """The same for programs; ages in seconds."""
    return {
        "queues": [
            {
                "queue": queue.queue,
                "ready": queue.ready,
                "oldest": None if queue.oldest is None else queue.oldest.total_seconds(),
                "waiting": queue.waiting,
                "parked": queue.parked,
                "leased": queue.leased,
                "dead": queue.dead,
            }
            for queue in stats.queues.values()
        ],
        "workers": [
            {"id": one.id, "host": one.host, "pid": one.pid, "queues": list(one.queues)}
            for one in stats.workers
        ],
    }
