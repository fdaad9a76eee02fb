"""A relay that loses its database in the middle: every message arrives, always as the same.

What was sent and could not be marked is marked when the database is back; only what nobody can
know of any more is sent again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import duly
from tests.receiver.faults.clusters import Cluster, cluster
from tests.relay.faults.crews import RelayProcess
from tests.relay.faults.posts import Post
from tests.stores.test_lost_connections import terminate_all
from tests.support.processes import until
from tests.support.proxies import Cut, Proxy
from tests.support.servers import through

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.outbox.receivers import Receiver

pytestmark = pytest.mark.slow

MANY = [f"/{number:03}" for number in range(150)]
FEW = MANY[:3]
# Seconds for each answer, so that the relay is in the middle of something.
SLOW = 0.02
# Seconds of a lease that is let run out; calls end before it, also on a busy machine.
LEASE = 3.0


def stage(post: Post, paths: list[str]) -> None:
    for path in paths:
        post.there.answer(path, delay=SLOW)
    post.stage(paths)


def arrived(post: Post) -> None:
    """Wait until everything is sent and marked; nobody waits long for a second attempt."""

    def over() -> bool | None:
        post.hurry()
        return post.left() == 0 or None

    until(over)


def did(relay: RelayProcess) -> dict[str, int]:
    relay.drain()
    return relay.did()


def test_connections_that_the_server_ends_cost_a_relay_nothing_but_time(
    own_postgres_url: str, there: Receiver
) -> None:
    with Post(own_postgres_url, there) as post:
        stage(post, MANY)
        with RelayProcess(post, LEASE) as relay:
            for count in (20, 60, 100):
                there.wait_for(count)
                until(lambda: terminate_all(own_postgres_url) or None)  # it may have none just now
            arrived(post)
            # A mark that had to be tried again counts as made, also where the lease was lost.
            assert did(relay)["sent"] >= len(MANY)
        post.check()


@pytest.fixture
def server() -> Iterator[Cluster]:
    """A server that can be struck down."""
    with cluster() as started:
        duly.store(started.url).migrate()
        yield started


def test_a_server_struck_down_in_the_middle_costs_its_relays_nothing_but_time(
    server: Cluster, there: Receiver
) -> None:
    with Post(server.url, there) as post:
        stage(post, MANY)
        with RelayProcess(post, LEASE) as one, RelayProcess(post, LEASE) as other:
            there.wait_for(30)
            server.strike()
            server.back()
            there.wait_for(60)
            with server.away():  # for longer than a statement is tried
                one.hear("trying again")
                other.hear("trying again")
            server.back()
            post.reopen()
            arrived(post)
            assert did(one)["sent"] + did(other)["sent"] >= len(MANY)
        post.check()


@pytest.mark.parametrize(
    ("cut", "text"), [(Cut.BEFORE, "duly_history"), (Cut.REPLY, "INSERT 0 ")], ids=["sent", "heard"]
)
def test_a_mark_whose_way_is_cut_is_made_once_and_nothing_is_sent_again(
    cut: Cut, text: str, wire: Proxy, own_postgres_url: str, there: Receiver
) -> None:
    with Post(wire.url, there, beside=own_postgres_url) as post:
        trap = wire.set(cut, text, times=2)
        stage(post, FEW)
        with RelayProcess(post) as relay:
            until(lambda: post.left() == 0 or None)
            done = did(relay)
        assert trap.sprung == 2
        assert (done["sent"], done["lost"], done["resent"]) == (len(FEW), 0, 0)
        post.check()
        assert [post.copies(path) for path in FEW] == [1] * len(FEW)


def test_messages_taken_by_a_reply_that_is_lost_come_back_when_their_lease_has_run_out(
    wire: Proxy, own_postgres_url: str, there: Receiver
) -> None:
    with Post(wire.url, there, beside=own_postgres_url) as post:
        stage(post, FEW)
        trap = wire.set(Cut.REPLY, f"UPDATE {len(FEW)}")
        with RelayProcess(post, LEASE) as relay:
            arrived(post)
            done = did(relay)
        assert trap.sprung == 1
        assert (done["sent"], done["rescued"]) == (len(FEW), len(FEW))
        assert done["resent"] == len(FEW), "nobody knows whether they were sent"
        post.check()
        assert [post.copies(path) for path in FEW] == [1] * len(FEW)


def test_relays_behind_a_transaction_pooler_are_killed_and_cut_off_to_the_same_end(
    bouncer_address: str, own_postgres_url: str, there: Receiver
) -> None:
    pooled = through(bouncer_address, own_postgres_url)
    with Post(pooled, there, beside=own_postgres_url) as post:
        stage(post, MANY)
        with RelayProcess(post, LEASE) as first, RelayProcess(post, LEASE) as second:
            there.wait_for(30)
            first.kill()
            there.wait_for(60)
            assert terminate_all(own_postgres_url) >= 1
            arrived(post)
            assert did(second)["sent"] > 0
        post.check()
