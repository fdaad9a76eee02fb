"""What is done to a set-up while its senders are at work, at moments that the seed chooses."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from tests.support.proxies import Cut

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from tests.receiver.faults.clusters import Cluster
    from tests.support.proxies import Proxy

    from verification.setups.catalog import Setup
    from verification.setups.programs import Program

NONE = "none"


class World(NamedTuple):
    """What a fault can reach."""

    programs: list[Program]
    dice: random.Random
    cluster: Cluster | None = None
    wire: Proxy | None = None


class Fault(NamedTuple):
    """One kind of fault: what it does, seconds between two of it, and whether it suits SQLite."""

    name: str
    strike: Callable[[World], None]
    every: float
    sqlite: bool


def kill_program(world: World) -> None:
    """SIGKILL; the process is started again at once."""
    world.dice.choice(world.programs).kill()


def pause_program(world: World) -> None:
    """SIGSTOP, in some cases until the leases of a worker are lost."""
    program = world.dice.choice(world.programs)
    program.pause()
    try:
        time.sleep(world.dice.uniform(0.3, 5.0))
    finally:
        program.go_on()


def restart_server(world: World) -> None:
    """PostgreSQL ends at once, as by `pg_ctl stop -m immediate`, and comes back."""
    assert world.cluster is not None
    world.cluster.strike()
    world.cluster.back()


def cut_commit(world: World) -> None:
    """The next COMMIT is carried out, and its reply never reaches the application."""
    assert world.wire is not None
    world.wire.set(Cut.REPLY, "COMMIT", times=world.dice.randint(1, 3))


def silence_commit(world: World) -> None:
    """The next COMMITs are carried out and never answered, on connections that look alive."""
    assert world.wire is not None
    world.wire.set(Cut.HOLE, "COMMIT", times=world.dice.randint(1, 6))


def strike_any(world: World) -> None:
    """One of the others, as the dice say."""
    strikes = [kill_program, pause_program]
    if world.wire is not None:
        strikes += [cut_commit, cut_commit, silence_commit, restart_server]
    world.dice.choice(strikes)(world)


FAULTS = {
    fault.name: fault
    for fault in (
        Fault("kill", kill_program, 4.0, sqlite=True),
        Fault("pause", pause_program, 4.0, sqlite=True),
        Fault("restart", restart_server, 10.0, sqlite=False),
        Fault("cut", cut_commit, 0.5, sqlite=False),
        Fault("silent", silence_commit, 2.0, sqlite=False),
        Fault("storm", strike_any, 2.0, sqlite=True),
    )
}
# Those for which PostgreSQL is a server of the trial's own, and for which a proxy leads to it.
OWN_SERVER, PROXIED = ("restart", "storm"), ("cut", "silent", "storm")


def fits(setup: Setup, fault: str) -> bool:
    """True where the fault can be brought about on the set-up."""
    return fault == NONE or FAULTS[fault].sqlite or setup.database.store == "postgres"


@contextmanager
def disarmed(world: World) -> Iterator[None]:
    """No trap is left on the wire after the block."""
    try:
        yield
    finally:
        if world.wire is not None:
            world.wire.trap = None


def strike_until(fault: str, world: World, over: float, stopped: Callable[[], bool]) -> int:
    """Strike again and again until ``over``; how often. At least once."""
    kind, struck = FAULTS[fault], 0
    with disarmed(world):
        while True:
            due = time.monotonic() + world.dice.uniform(0.25, 1.0) * kind.every
            # The first one always falls into the traffic, however short that is.
            due = min(due, over - 1.0) if not struck else due
            while time.monotonic() < min(due, over) and not stopped():
                time.sleep(0.02)
            if stopped() or (struck and time.monotonic() >= over):
                return struck
            kind.strike(world)
            struck += 1
