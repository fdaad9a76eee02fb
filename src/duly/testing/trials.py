"""An application on a database of its own, with everything that a test needs, in one object."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.testing.applications import application, bound
from duly.testing.clocks import HandClock
from duly.testing.databases import databases_on
from duly.testing.deliver import Deliver
from duly.testing.guard import is_for_tests
from duly.testing.run_jobs import RunJobs
from duly.testing.run_relay import RunRelay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.app.duly import Duly
    from duly.outbox.message import Message
    from duly.stores.join.protocols import BeginsTransactions


@dataclass(frozen=True, slots=True)
class Trial:
    """What `isolated` yields.

    Args:
        app: the application, on the test's database.
        url: the address of that.
        clock: what time it is there.
        deliver: delivers events.
        run_jobs: runs what is due.
        run_relay: records what would be sent.
    """

    app: Duly
    url: str
    clock: HandClock
    deliver: Deliver
    run_jobs: RunJobs
    run_relay: RunRelay

    @property
    def sent_messages(self) -> list[Message]:
        """Every message that the relay recorded."""
        return self.run_relay.sent


@contextmanager
def isolated(
    app: str | Duly,
    *,
    url: str | None = None,
    begin: BeginsTransactions | None = None,
    clock: HandClock | None = None,
) -> Iterator[Trial]:
    """An application on a fresh database, until the end of the block.

    For ``unittest``: ``self.trial = self.enterContext(isolated("shop:app"))`` in ``setUp``.

    Args:
        app: the application, or its name, such as ``shop:app``.
        url: a PostgreSQL server in which to make a database; or one that `test_database` or
            `django_test_database` returned, to use that. A SQLite file unless given.
        begin: for an app whose handlers work in your ORM, a sessionmaker on that database; its own
            ``begin=`` unless given.
        clock: what time it is; a `HandClock` that begins now unless given.
    """
    hand = HandClock() if clock is None else clock
    with ExitStack() as stack:
        if url is None or not is_for_tests(url):
            url = stack.enter_context(databases_on(url).fresh())
        found = stack.enter_context(bound(application(app), url, clock=hand, begin=begin))
        deliver = stack.enter_context(Deliver(found))
        run_jobs, run_relay = RunJobs(found, hand), RunRelay(found, hand)
        yield Trial(found, url, hand, deliver, run_jobs, run_relay)
