"""A relay may die at any statement, and between sending a message and writing that down.

The next one finds every message. What it sends again is the same to the last byte, but for the
time and the signature of it, and is counted.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.relay.faults.killing import MODULE, Place
from tests.support.processes import Led

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.relay.faults.posts import Post

pytestmark = pytest.mark.slow

# What a relay finds: two that are taken, one that has to come again, one that nobody ever takes,
# one whose time has come since it was staged, and one of a relay that died before.
NAMES = ("taken", "too", "busy", "refused", "due", "lost")
# The last one comes back after a moment, when the relay may have ended.
ANSWERED = NAMES[:-1]
DUE = "UPDATE duly_outbox SET run_at = {{now}}, waiting = {yes} WHERE id = '{id}'"
LOST = (
    "UPDATE duly_outbox SET state = 'leased', epoch = 1, token = {token}, lease_until = {{now}}"
    " WHERE id = '{id}'"
)
YES = {True: "1", False: "true"}
TOKEN = {True: "randomblob(16)", False: "uuid_send(gen_random_uuid())"}
# What every relay writes here.
WRITES = {
    "outbox_rescue", "outbox_stage", "outbox_sent_many", "outbox_return_many", "outbox_bury_many",
    "counters_add",
}  # fmt: skip
TAKES = {True: "outbox_take", False: "outbox_take_many"}


class Met(NamedTuple):
    """How a relay ended, where it came by if it lived, and what the next one sent again."""

    ended: int
    places: list[Place]
    again: int


class Matrix:
    """Crash after crash on one database."""

    def __init__(self, post: Post, killer: Led) -> None:
        self._post = post
        self._killer = killer
        self._cases = 0

    def stage(self) -> list[str]:
        """Give a relay something of each kind to do; the paths."""
        post, self._cases = self._post, self._cases + 1
        paths = [f"/{self._cases}/{name}" for name in NAMES]
        taken, too, busy, refused, due, lost = paths
        post.stage([taken, busy, refused, due])
        for path in (too, lost):
            post.stage([path], key=f"key-of{path}")
        post.there.answer(busy, 503, times=1)
        post.there.answer(refused, 410)
        post.ask(DUE.format(id=post.staged[due], yes=YES[post.is_sqlite]))
        post.ask(LOST.format(id=post.staged[lost], token=TOKEN[post.is_sqlite]))
        return paths

    def meet(self, at: Place | None) -> Met:
        """One relay that dies there, another that finishes, and what both ends say of it."""
        post = self._post
        paths = self.stage()
        ended, places = self._killer.ask("", order=[post.url, post.there.url, at])
        before = {path: post.copies(path) for path in paths}
        counted = post.counted()
        relayed = post.finish()
        post.check(dead=[path for path in paths if path.endswith("refused")])
        again = sum(post.copies(path) - before[path] for path in paths if before[path])
        assert again <= relayed.resent, "something was sent again, and not counted"
        assert post.counted() == counted + relayed.resent
        assert relayed.lost == 0
        post.forget()
        return Met(ended, [(name, number) for name, number in places], again)

    def meet_all(self, places: Iterable[Place]) -> list[Met]:
        """The same at each of these places."""
        return [self.meet(place) for place in places]


@pytest.fixture
def matrix(post: Post) -> Iterator[Matrix]:
    """The same, with relays that die where they are told to."""
    with Led(MODULE) as killer:
        yield Matrix(post, killer)


def worth_dying_at(places: Iterable[Place], *, is_sqlite: bool) -> list[Place]:
    """The first time at each statement that reads, and at both sides of each that writes."""
    writes = WRITES | {TAKES[is_sqlite]}
    return [
        (name, number)
        for name, number in places
        if number == 0
        and ("outbox" in name or "counters" in name)
        and (name.startswith("before") or "COMMIT" in name or name.split()[-1] in writes)
    ]


@pytest.mark.promise("I11")
def test_killed_at_any_statement_a_relay_leaves_every_message_to_the_next(
    matrix: Matrix, post: Post
) -> None:
    whole = matrix.meet(None)
    assert whole.ended == 0
    places = worth_dying_at(whole.places, is_sqlite=post.is_sqlite)
    writes = WRITES | {TAKES[post.is_sqlite]}
    always = {(f"{side} {name}", 0) for name in writes for side in ("before", "after")}
    assert always <= set(places), places
    met = matrix.meet_all(places)
    killed = {at for at, each in zip(places, met, strict=True) if each.ended == signal.SIGKILL}
    # What a relay does by the clock, it does not do in every run; then it did not come there.
    lived = [(at, each) for at, each in zip(places, met, strict=True) if at not in killed]
    assert [at for at, each in lived if at in each.places] == []
    assert always <= killed
    assert any(each.again for each in met), "nothing was ever sent twice: it was too easy"


@pytest.mark.long
def test_killed_at_each_of_its_statements_every_time_it_runs_it_does_the_same(
    matrix: Matrix,
) -> None:
    runs = [set(matrix.meet(None).places) for _ in range(3)]
    places = sorted(set.union(*runs))
    ended = dict(zip(places, matrix.meet_all(places), strict=True))
    # What goes on at the same time is not always done in as many statements, but in each of them.
    always = [place for place in set.intersection(*runs) if place[1] == 0]
    assert {ended[place].ended for place in always} == {signal.SIGKILL}
    assert len(always) > len(WRITES) * 2


def test_killed_between_an_answer_and_its_mark_a_relay_has_the_message_sent_again_and_counted(
    matrix: Matrix,
) -> None:
    for number in (0, 1, len(ANSWERED) - 1):
        met = matrix.meet(("answered", number))
        assert met.ended == signal.SIGKILL
        assert met.again >= 1, "it was marked already"
