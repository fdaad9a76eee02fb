"""A relay that was stopped past its lease comes back from the dead: what it marks is refused.

Another one has sent its messages meanwhile, or is at it. Each arrived with the same id, and the
late one changes no row.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.relay.faults.crews import RelayProcess
from tests.support.processes import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.relay.faults.posts import Post

pytestmark = pytest.mark.slow

# Long: on a busy machine, too, the relay is stopped before its calls end. Then it is let run out.
LEASE = 30.0
PATHS = [f"/{number}" for number in range(3)]
LOST = "was lost"


@contextmanager
def stopped(post: Post) -> Iterator[RelayProcess]:
    """A relay whose requests have arrived, stopped, and its lease has run out."""
    answers = [post.there.hold(path) for path in PATHS]
    post.stage(PATHS)
    with RelayProcess(post, LEASE) as late:
        post.there.wait_for(len(PATHS))
        late.stop()
        for answer in answers:  # they lie in its sockets from now on
            answer.set()
        post.expire()
        yield late


def refused(late: RelayProcess) -> None:
    """Let it go on, until it has heard that it lost every one of its leases."""
    late.go_on()
    for _ in PATHS:
        late.hear(LOST)


def ended(late: RelayProcess) -> None:
    """It counts what was refused, and nothing as sent."""
    late.drain()
    did = late.did()
    assert (did["lost"], did["sent"], did["retried"]) == (len(PATHS), 0, 0)


@pytest.mark.promise("I8", "I11")
def test_a_relay_stopped_past_its_lease_is_refused_its_marks_and_changes_nothing(
    post: Post,
) -> None:
    with stopped(post) as late:
        assert post.finish().sent == len(PATHS)
        before = post.rows()
        refused(late)
        assert post.rows() == before
        ended(late)
    post.check()
    assert [post.copies(path) for path in PATHS] == [2] * len(PATHS)


def test_its_marks_are_refused_also_while_another_relay_has_the_leases(post: Post) -> None:
    with stopped(post) as late:
        answers = [post.there.hold(path) for path in PATHS]
        with RelayProcess(post) as other:
            post.there.wait_for(2 * len(PATHS))
            before = post.rows()
            refused(late)
            assert post.rows() == before
            for answer in answers:
                answer.set()
            until(lambda: post.left() == 0 or None)
            other.drain()
            did = other.did()
            assert (did["sent"], did["resent"], did["lost"]) == (len(PATHS), len(PATHS), 0)
        ended(late)
    post.check()
