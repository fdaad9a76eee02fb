"""Messages brought into every situation by duly's own statements, and every way to move them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from duly.core.defaults import WAIT
from duly.core.ids import new_id
from duly.core.onestep import finish
from duly.ledger.lease import Lease
from duly.outbox.lease import (
    MOST_RESCUES,
    DestinationDemand,
    LeasedMessage,
    MessageSettlement,
    remove_settled,
    rescue,
    settle,
    stage_due,
    take,
)
from duly.outbox.outcome import RELEASED, SENT, MessageOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duly.core.session import Session
    from duly.types import Store
    from tests.conftest import HandClock
    from tests.worker.records import Records

State = Literal["ready", "leased", "dead", "sent"]
HOUR = 3600 * 1_000_000
THERE = "https://example.com"
OTHER_TOKEN = b"o" * 16
# Longer than the longest wait after a rescue.
BACK = timedelta(minutes=5)
LEASE = timedelta(hours=1)
AGAIN = MessageOutcome("again", delay=HOUR, attempts_used=1, error=b'{"why":"busy"}')
BURIED = MessageOutcome("dead", attempts_used=1, error=b'{"why":"gone"}')


class Bench:
    """A store and one message; a lease on it lasts an hour."""

    def __init__(self, store: Store, records: Records, clock: HandClock) -> None:
        self.store, self.records, self.clock = store, records, clock
        self.message = new_id()

    def run(self, operation: Callable[[Session], Any]) -> Any:
        """An operation in a transaction of its own."""
        return finish(self.store.sync_runner.run(operation, wait=WAIT))

    def insert(self, delay: int = 0) -> None:
        """Stage the message."""
        assert self.run(lambda session: insert(session, self.message, delay))

    def take(self) -> LeasedMessage:
        """Lease the message."""
        leased: LeasedMessage
        [leased] = self.run(lambda session: take(session, [DestinationDemand(THERE, 10)], HOUR))
        assert leased.id == self.message
        return leased

    def settle(self, leased: LeasedMessage, ended: MessageOutcome) -> None:
        """End the lease."""
        done = self.run(lambda session: settle(session, [MessageSettlement(leased.lease, ended)]))
        assert done == {self.message}

    def stage(self) -> None:
        """Move what has come due to where relays look."""
        assert self.run(stage_due) == 1

    def attempt(self, name: str, leased: LeasedMessage) -> bool:
        """Try to move the message, with the lease that the caller believes in."""
        return bool(self.run(lambda session: ATTEMPTS[name].make(session, leased)))

    def state(self) -> State | None:
        """What the tables say of the message."""
        found = self.records.rows(f"SELECT state FROM duly_outbox WHERE id = '{self.message}'")
        if found:
            state: State = found[0][0]
            return state
        sent = [one for one in self.records.history(self.message) if one[1] == "sent"]
        return "sent" if sent else None

    def everything(self) -> object:
        """Every row that an attempt could change."""
        return self.records.everything("duly_outbox", "duly_history", "duly_claims")


async def insert(session: Session, message: str, delay: int = 0) -> Any:
    return await session.rows(
        "outbox_insert", id=message, scope="send", destination=THERE,
        request=b"{}", body=b"1", signer=None, delay=delay, at=None, max_attempts=20,
    )  # fmt: skip


async def discard(session: Session, message: str) -> bool:
    gone = await session.rows("outbox_discard", id=message)
    await remove_settled(session, [row["id"] for row in gone])
    return bool(gone)


class Attempt(NamedTuple):
    """One way to move a message: the statement, and what is done with it."""

    statement: str
    make: Callable[[Session, LeasedMessage], Any]


def settling(ended: MessageOutcome) -> Callable[[Session, LeasedMessage], Any]:
    """An end that is written by the relay, with those of others."""
    return lambda session, leased: settle(session, [MessageSettlement(leased.lease, ended)])


ATTEMPTS: Mapping[str, Attempt] = {
    "insert": Attempt("outbox_insert", lambda session, leased: insert(session, leased.id)),
    "stage": Attempt("outbox_stage", lambda session, _: stage_due(session)),
    "take": Attempt(
        "outbox_take", lambda session, _: take(session, [DestinationDemand(THERE, 10)], HOUR)
    ),
    "sent": Attempt("outbox_sent", settling(SENT)),
    "again": Attempt("outbox_return", settling(AGAIN)),
    "release": Attempt("outbox_return", settling(RELEASED)),
    "bury": Attempt("outbox_bury", settling(BURIED)),
    "rescue": Attempt("outbox_rescue", lambda session, _: rescue(session)),
    "replay": Attempt(
        "outbox_replay",
        lambda session, leased: session.rows(
            "outbox_replay", ids=json.dumps([leased.id]), start=0, gap=0
        ),
    ),
    "discard": Attempt("outbox_discard", lambda session, leased: discard(session, leased.id)),
}


@dataclass(frozen=True, slots=True)
class Situation:
    """Where a message stands, who asks, and what may become of it."""

    name: str
    before: State | None
    make: Callable[[Bench], LeasedMessage]
    # By the name of an attempt; every other one must change nothing.
    allowed: Mapping[str, State | None] = field(default_factory=dict)


def forged(bench: Bench) -> LeasedMessage:
    """A lease that nobody gave."""
    return LeasedMessage(
        Lease(bench.message, OTHER_TOKEN, 1), "send", THERE, b"{}", b"1", None, 0, 0, 20, 0, 0, 0
    )


def inserted(bench: Bench, delay: int = 0) -> LeasedMessage:
    """Staged, and leased by nobody."""
    bench.insert(delay)
    return forged(bench)


def under(leased: LeasedMessage, **other: Any) -> LeasedMessage:
    """The same message under a lease that differs in this."""
    return leased._replace(lease=leased.lease._replace(**other))


def leased(bench: Bench) -> LeasedMessage:
    """Taken by a relay."""
    bench.insert()
    return bench.take()


def returned(bench: Bench, ended: MessageOutcome) -> LeasedMessage:
    """Taken, and its lease ended."""
    lease = leased(bench)
    bench.settle(lease, ended)
    return lease


def after(bench: Bench, passed: timedelta, lease: LeasedMessage) -> LeasedMessage:
    """A while later."""
    bench.clock.advance(passed)
    return lease


def run_out(bench: Bench) -> LeasedMessage:
    """Its relay is silent for longer than the lease."""
    return after(bench, LEASE, leased(bench))


def rescued(bench: Bench, times: int = 1) -> LeasedMessage:
    """Taken back so many times, and its time not come yet."""
    lease = run_out(bench)
    for number in range(times):
        if number:
            lease = again_lost(bench)
        assert bench.run(rescue)
    return lease


def again_lost(bench: Bench) -> LeasedMessage:
    """Taken after a rescue, and lost once more."""
    bench.clock.advance(BACK)
    bench.stage()
    return after(bench, LEASE, bench.take())


def lost_for_the_last_time(bench: Bench) -> LeasedMessage:
    """Taken back as often as it may be, but one."""
    rescued(bench, MOST_RESCUES - 1)
    return again_lost(bench)


def retaken(bench: Bench) -> LeasedMessage:
    """Taken, given back, and taken by somebody newer: the lease is the first one."""
    old = returned(bench, RELEASED)
    bench.take()
    return old


def replayed(bench: Bench) -> LeasedMessage:
    """Given up, replayed, and taken anew: the lease is the first one."""
    old = returned(bench, BURIED)
    assert bench.attempt("replay", old)
    bench.take()
    return old


SETTLED: dict[str, State | None] = {
    "sent": "sent",
    "again": "ready",
    "release": "ready",
    "bury": "dead",
}
SITUATIONS = [
    Situation("nothing is there", None, forged, {"insert": "ready"}),
    Situation("due", "ready", inserted, {"take": "leased"}),
    Situation("not due", "ready", lambda bench: inserted(bench, HOUR)),
    Situation(
        "set aside and due",
        "ready",
        lambda bench: after(bench, LEASE, inserted(bench, HOUR)),
        {"stage": "ready"},
    ),
    Situation(
        "due, before the clock was set back",
        "ready",
        lambda bench: after(bench, -LEASE, inserted(bench)),
        {"take": "leased"},
    ),
    Situation("failed", "ready", lambda bench: returned(bench, AGAIN)),
    Situation("given back", "ready", lambda b: returned(b, RELEASED), {"take": "leased"}),
    Situation("just rescued", "ready", rescued),
    Situation("rescued and due", "ready", lambda b: after(b, BACK, rescued(b)), {"stage": "ready"}),
    Situation("leased", "leased", leased, SETTLED),
    Situation("leased, with an old token and epoch", "leased", retaken),
    Situation("leased, with an old token", "leased", lambda b: under(leased(b), token=OTHER_TOKEN)),
    Situation("leased, with an old epoch", "leased", lambda b: under(leased(b), epoch=0)),
    Situation("leased anew after a replay", "leased", replayed),
    Situation("the lease has run out", "leased", run_out, {**SETTLED, "rescue": "ready"}),
    Situation(
        "lost for the last time", "leased", lost_for_the_last_time, {**SETTLED, "rescue": "dead"}
    ),
    Situation("dead", "dead", lambda b: returned(b, BURIED), {"replay": "ready", "discard": None}),
    Situation("sent", "sent", lambda bench: returned(bench, SENT)),
]
