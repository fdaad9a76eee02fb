"""SIGTERM drains a relay: what is on its way arrives and is marked, the rest is given back.

A second one has it give back what is on its way, too, and the next relay sends that again.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.relay.faults.crews import RelayProcess
from tests.support.processes import until

if TYPE_CHECKING:
    from tests.relay.faults.posts import Post

pytestmark = pytest.mark.slow

# As many as a relay sends to one destination at a time; it holds more, ahead of their time.
RUNNING = 10
PATHS = [f"/{number:02}" for number in range(3 * RUNNING)]
STATES = "SELECT state, attempts, rescues, count(*) FROM duly_outbox GROUP BY 1, 2, 3 ORDER BY 1, 3"
HOLDS = "SELECT count(*) FROM duly_outbox WHERE state = 'leased'"


def begun(post: Post) -> None:
    """Wait until it is sending what it may, and holds more than that."""
    post.there.wait_for(RUNNING)
    until(lambda: post.number(HOLDS) > RUNNING or None)


def test_a_relay_that_is_told_to_end_marks_what_arrives_and_gives_back_the_rest(
    post: Post,
) -> None:
    answers = [post.there.hold(path) for path in PATHS]
    post.stage(PATHS)
    with RelayProcess(post) as relay:
        begun(post)
        relay.drain()
        until(lambda: post.number(HOLDS) == RUNNING or None)
        for answer in answers:
            answer.set()
        did = relay.did()
    assert (did["sent"], did["retried"], did["lost"], did["resent"]) == (RUNNING, 0, 0, 0)
    assert post.ask(STATES) == [("ready", 0, 0, len(PATHS) - RUNNING)]
    assert len(post.there.requests) == RUNNING, "it began something that it was to give back"
    done = post.finish()
    assert (done.sent, done.resent) == (len(PATHS) - RUNNING, 0)
    post.check()


def test_a_second_signal_gives_back_what_is_on_its_way_and_the_next_relay_sends_it_again(
    post: Post,
) -> None:
    answers = [post.there.hold(path) for path in PATHS]
    post.stage(PATHS)
    with RelayProcess(post) as relay:
        begun(post)
        relay.drain()
        relay.hurry()
        did = relay.did(128 + signal.SIGTERM)
    assert (did["sent"], did["retried"], did["lost"]) == (0, RUNNING, 0)
    assert post.ask(STATES) == [
        ("ready", 0, 0, len(PATHS) - RUNNING),
        ("ready", 0, 1, RUNNING),  # it may have arrived: that is counted
    ]
    for answer in answers:
        answer.set()
    done = post.finish()
    assert (done.sent, done.resent) == (len(PATHS), RUNNING)
    post.check()
    assert len(post.there.requests) == len(PATHS) + RUNNING
