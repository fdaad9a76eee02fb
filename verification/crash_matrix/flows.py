"""The flows: what is there before, what is done while the fault strikes, and how it must end.

To add one, write its steps in ``verification.crash_matrix.parts`` and name it in ``FLOWS``; its
statements are found by running it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from verification.crash_matrix.claims import claiming, fencing, left_under_lease, taking_turns
from verification.crash_matrix.operators import (
    buried,
    buried_and_refused,
    discarding,
    forgetting,
    forgotten_and_asked,
    given_up,
    refused,
    replaying,
    sending_again,
)
from verification.crash_matrix.parts import (
    FAKE,
    FORGED,
    INLINE,
    KEPT,
    ONE,
    PUSH,
    THREE,
    TWO,
    Part,
    abandoned,
    asking_anew,
    beaten,
    beating,
    closed_windows,
    come_back,
    delivering,
    delivering_again,
    enqueuing,
    migrating,
    nothing,
    old_and_new,
    open_gate,
    pruned_and_asked,
    pruning,
    relaying,
    selling,
    sending,
    slot_due,
    stopping,
    three_slow,
    unless_told,
    until_told_to_end,
    working,
    working_through,
)
from verification.crash_matrix.shop import Terms, scheduled, shop

if TYPE_CHECKING:
    from collections.abc import Callable

    import duly
    from verification.crash_matrix.bench import Bench
    from verification.crash_matrix.places import Place


@dataclass(frozen=True, slots=True)
class Flow:
    """One flow. What it must lead to is said by names, each of which must be there just once."""

    name: str
    run: Part
    prepare: Part = nothing
    # What a sender, a caller or an operator does again who heard nothing.
    again: Part = nothing
    effects: tuple[str, ...] = ()
    # Calls to the outside: at least once, and always with the same key.
    calls: tuple[str, ...] = ()
    # Messages: at least once, and always with the same id.
    messages: tuple[str, ...] = ()
    # Names of what was given up, jobs and messages.
    dead: tuple[str, ...] = ()
    # Ids of the events that must be there.
    events: tuple[str, ...] = ()
    make: Callable[[Terms], duly.Duly] = shop
    # Only these statements, where the others are those of another flow.
    only: tuple[str, ...] = ()
    # What holds its jobs.
    gate: Callable[[Bench, Place], None] = open_gate
    empty: bool = False  # there are no tables yet
    # Whether its errors are read as the driver has them: through a connection or in a transaction
    # of the user's, or by the operator who migrates.
    theirs: bool = False
    without: tuple[str, ...] = ()  # faults that say nothing here
    # Whether a job of it can be held by two: at work, and in a transaction at work.
    leased: bool = False
    inside: bool = False
    # Where the short form runs it: each colour on one store, because the worker, the relay and what
    # operators do are the same code in both, and leases by hand come seldom.
    quick_modes: tuple[str, ...] = ("sqlite-sync", "postgres-async")
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def promises(self) -> list[str]:
        """What the audit can find broken in this flow, by the names of tests/README.md."""
        moves = self.events or self.messages or self.dead or self.inside or self.leased
        asked_again = self.again is not nothing and self.effects
        tried = {
            "I1": self.events,
            "I2": self.effects or self.calls,
            "I3": self.effects,
            "I4": self.effects or self.events,
            "I5": self.events,
            "I6": moves,
            "I7": moves,
            "I8": self.inside or self.leased,
            "I9": self.dead or self.inside or self.leased,
            "I10": moves,
            "I11": self.messages,
            "I12": True,
            "I13": self.extra.get("forged"),
            "I14": self.extra.get("conflict"),
            "one first": asked_again,
            "one transaction": self.effects and (self.events or self.inside or self.theirs),
            "machines": self.inside or self.leased,
        }
        return [name for name, there in tried.items() if there]

    def rivals(self, store: str) -> bool:
        """Whether two can be at work on one job; on SQLite there is one transaction at a time."""
        return self.leased or (self.inside and store != "sqlite")


# For what nearly everybody does in a colour of their own.
BOTH_COLOURS = ("sqlite-sync", "sqlite-async", "postgres-async")
FLOWS = {
    flow.name: flow
    for flow in (
        Flow(
            "receive-new",
            delivering(ONE),
            again=delivering_again(ONE),
            effects=("book evt_1", "follow evt_1"),
            messages=("/ok/evt_1",),
            events=("evt_1",),
            quick_modes=BOTH_COLOURS,
        ),
        Flow(
            "receive-duplicate",
            delivering(ONE),
            prepare=delivering(ONE),
            again=delivering_again(ONE),
            effects=("book evt_1", "follow evt_1"),
            messages=("/ok/evt_1",),
            events=("evt_1",),
            quick_modes=BOTH_COLOURS,
        ),
        Flow(
            "receive-inline",
            delivering(INLINE),
            again=delivering_again(INLINE),
            effects=("serve evt_9",),
            events=("evt_9",),
            quick_modes=BOTH_COLOURS,
        ),
        Flow(
            "receive-batch",
            delivering(ONE, TWO, TWO, THREE),
            prepare=delivering(ONE),
            again=delivering_again(ONE, TWO, THREE),
            effects=tuple(f"{name} evt_{n}" for name in ("book", "follow") for n in (1, 2, 3)),
            messages=tuple(f"/ok/evt_{n}" for n in (1, 2, 3)),
            events=("evt_1", "evt_2", "evt_3"),
            quick_modes=BOTH_COLOURS,
        ),
        Flow(
            "receive-conflict",
            delivering(FORGED),
            prepare=delivering(PUSH),
            again=delivering_again(FORGED),
            effects=("book id_1", "follow id_1"),
            messages=("/ok/id_1",),
            events=("id_1", "id_1"),
            extra={"conflict": True},
            quick_modes=BOTH_COLOURS,
        ),
        Flow(
            "receive-forged",
            delivering(FAKE, ONE, FAKE),
            again=delivering_again(FAKE, ONE),
            effects=("book evt_1", "follow evt_1"),
            messages=("/ok/evt_1",),
            events=("evt_1",),
            extra={"forged": ["evt_fake"]},
            quick_modes=BOTH_COLOURS,
        ),
        Flow(
            "claim",
            claiming,
            again=unless_told(claiming),
            effects=("claim",),
            theirs=True,
            quick_modes=BOTH_COLOURS,
        ),
        Flow(
            "enqueue",
            enqueuing("follow"),
            again=unless_told(enqueuing("follow")),
            effects=("follow it",),
            quick_modes=BOTH_COLOURS,
        ),
        Flow(
            "job-tx",
            working,
            prepare=delivering(ONE),
            inside=True,
            effects=("book evt_1", "follow evt_1"),
            messages=("/ok/evt_1",),
            events=("evt_1",),
            quick_modes=BOTH_COLOURS,
        ),
        Flow(
            "job-bulk",
            working,
            prepare=selling("one", "two", "three"),
            inside=True,
            effects=("sell one", "sell two", "sell three"),
            quick_modes=BOTH_COLOURS,
        ),
        # The batch is rolled back, one of its jobs is done alone, and the other fails once.
        Flow(
            "job-bulk-alone",
            working_through,
            prepare=selling("good", "broken"),
            effects=("sell good", "sell broken"),
        ),
        Flow(
            "job-leased",
            working,
            prepare=enqueuing("mail"),
            calls=("mail it",),
            leased=True,
            quick_modes=BOTH_COLOURS,
        ),
        Flow(
            "job-effect",
            working,
            prepare=enqueuing("charge"),
            calls=("charge it",),
            leased=True,
            quick_modes=BOTH_COLOURS,
        ),
        Flow("job-retry", working_through, prepare=enqueuing("flaky"), effects=("flaky it",)),
        Flow("job-dead", working, prepare=enqueuing("doomed"), dead=("doomed",)),
        Flow("rescue", working, prepare=abandoned, effects=("follow it",), inside=True),
        Flow(
            "heartbeat",
            beating,
            prepare=enqueuing("slow"),
            calls=("slow it",),
            gate=beaten,
            only=("workers_beat",),
            extra={"again": True},  # its lease is short, and a busy machine may lose it
        ),
        Flow(
            "rescued",
            working,
            prepare=come_back,
            effects=("follow it",),
            inside=True,
        ),
        # Whoever stands still in a transaction has the version locked, and by a clock that jumps
        # the attempts of the others are used up before the server ends that.
        Flow(
            "order",
            working,
            prepare=delivering(KEPT),
            without=("pause",),
            effects=("keep evt_7",),
            calls=("tell evt_7",),
            events=("evt_7",),
        ),
        Flow(
            "job-undone",
            working_through,
            prepare=enqueuing("shaky"),
            calls=("shaky it",),
            extra={"again": True},
        ),
        Flow(
            "shutdown",
            stopping,
            prepare=three_slow,
            calls=("slow one", "slow two", "slow three"),
            gate=until_told_to_end,
            only=("return", "leave", "release", "counters"),
        ),
        Flow(
            "replay", replaying, prepare=buried, again=unless_told(replaying), effects=("flaky it",)
        ),
        Flow(
            "discard",
            discarding,
            prepare=buried_and_refused,
            again=unless_told(discarding),
            messages=("/refused/1",),
            extra={"refused": ["/refused/1"]},
        ),
        # Who stood still before it began forgets once more what was sent anew meanwhile.
        Flow(
            "forget",
            forgetting,
            prepare=given_up,
            again=forgotten_and_asked,
            effects=("drop id_5",),
            events=("id_5", "id_5"),
            without=("pause",),
        ),
        Flow(
            "turns",
            taking_turns,
            again=unless_told(taking_turns),
            effects=("turn",),
            theirs=True,
        ),
        Flow(
            "fence",
            fencing,
            again=fencing,
            calls=("fenced",),
        ),
        # What the one that is gone had done is done again.
        Flow(
            "fence-retaken",
            fencing,
            prepare=left_under_lease,
            again=fencing,
            calls=("fenced",),
            extra={"again": True},
        ),
        Flow(
            "windows",
            asking_anew,
            prepare=closed_windows,
            again=unless_told(asking_anew),
            effects=("follow it", "follow again"),
        ),
        Flow(
            "send",
            sending("/ok/1"),
            again=unless_told(sending("/ok/1")),
            messages=("/ok/1",),
            quick_modes=BOTH_COLOURS,
        ),
        Flow("relay-ok", relaying, prepare=sending("/ok/1", "/ok/2"), messages=("/ok/1", "/ok/2")),
        Flow(
            "relay-failed",
            relaying,
            prepare=sending("/busy/1", "/gone/1"),
            messages=("/busy/1", "/gone/1"),
            dead=("/gone/1",),
        ),
        Flow(
            "relay-replay",
            sending_again,
            prepare=refused,
            again=unless_told(sending_again),
            messages=("/refused/1",),
        ),
        Flow(
            "prune",
            pruning,
            prepare=old_and_new,
            again=pruned_and_asked,
            effects=tuple(f"{name} evt_{n}" for name in ("book", "follow") for n in (1, 2, 3)),
            messages=tuple(f"/ok/evt_{n}" for n in (1, 2, 3)),
            events=("evt_2",),
            # They may go once their work is done, and not before.
            extra={"over": ["evt_1", "evt_3"]},
        ),
        Flow("cron", working, prepare=slot_due, make=scheduled, extra={"slots": True}),
        # Beside a migrator that stands still others wait: that is what its lock is for.
        Flow(
            "migrate",
            migrating,
            again=unless_told(migrating),
            empty=True,
            theirs=True,
            without=("pause",),
        ),
    )
}
