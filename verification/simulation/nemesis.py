"""What goes wrong: drawn from the schedule's dice, and never more than its share.

A job is dead after five lost leases. So that each dead job has a cause in duly, a schedule has
a bounded number of faults that can cost a lease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from verification.simulation.actors import Actor
    from verification.simulation.processes import Process
    from verification.simulation.world import World

# The chance of each at a step, or at a statement that it can hit, while there is appetite.
STRIKES = 0.05
BREAKS = 0.005
LOSES = 0.02
# Statements that idle workers and relays repeat all the time, and how often one of them is hit
# where another would be.
LOOKS = frozenset(
    {
        *("jobs_next", "outbox_next", "jobs_held", "workers_beat", "workers_asleep"),
        *("jobs_rescue", "outbox_rescue"),
    }
)
SPARED = 0.1
# More leases than any job has.
MANY = 100
# How much of that is left while no process has a lease that could be lost, and how often a fault
# is aimed at a process that has one.
IDLE = 0.15
AIMED = 0.75
# Seconds that a stopped process is away, and that a clock is set ahead: in mind of the leases here,
# of the deadline of a job, and of what the ledger keeps for ever.
AWAY = (1.0, 8.0, 10.0, 12.0, 14.0, 20.0)
# Microseconds by which the timers of one who goes on are later than what it waited for.
LATE = (0, 500, 2_000, 10_000)
JUMPS = (3.0, 7.0, 9.0, 12.0, 25.0, 700.0)


class Nemesis:
    """Draws faults until the quiet begins."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._dice = world.dice
        self.quiet = False
        # How many more faults there may be that can cost a lease.
        self.appetite = int(self._dice.random() * 4.6 + 0.4)
        # All of them: what a lost lease may be due to.
        self.costly = 0
        self._rate = STRIKES * (0.3 + 1.4 * self._dice.random())
        self.actors: list[Actor] = []
        self._strikes = (
            (self._crash, 25), (self._stop, 35), (self._jump, 22), (self._restart, 6),
            (self._hurry, 5), (self._cancel, 9), (self._prune, 8),
        )  # fmt: skip
        self._weight = sum(weight for _, weight in self._strikes)

    def coin(self) -> bool:
        """Heads or tails."""
        return self._dice.random() < 0.5

    def _costs(self, fault: str, leases: int = 1) -> None:
        """Count a fault that can cost a job so many leases."""
        self.appetite -= 1
        self.costly += leases
        self._world.faults[fault] += 1

    def _lost_by_all(self) -> int:
        """How many leases can be lost when no worker was seen for long.

        Each worker is unseen until its next heartbeat, also one that has just taken a job from
        another: until then they may take it from each other again and again.
        """
        return MANY

    def breaks_connection(self, label: str) -> bool:
        """Whether a connection is lost before a statement arrives; its transaction goes with it."""
        if not self._hits(label, BREAKS):
            return False
        self._costs("connection lost")
        self._world.tell("the world", "cuts the connection: the transaction is rolled back")
        return True

    def loses_reply(self, label: str) -> bool:
        """Whether the reply of something that was committed is lost."""
        if not self._hits(label, LOSES):
            return False
        self._costs("reply of a commit lost")
        self._world.tell(
            "the world", "loses the reply: it is committed, and the process does not know"
        )
        return True

    def _hits(self, label: str, chance: float) -> bool:
        """Whether a fault hits a statement; rarely one of the many that only look around."""
        if self.quiet or not self.appetite or self._dice.random() >= chance:
            return False
        return label not in LOOKS or self._dice.random() < SPARED

    def strike(self) -> None:
        """Perhaps do something, between two steps."""
        if self.quiet:
            return
        chance = self._dice.random()
        if chance >= self._rate or (chance >= self._rate * IDLE and not self._at_work()):
            return
        draw = self._dice.random() * self._weight
        for strike, weight in self._strikes:
            draw -= weight
            if draw < 0:
                strike()
                return

    def _alive(self) -> list[Actor]:
        return [one for one in self.actors if one.process.alive and not one.process.stalled]

    def _at_work(self) -> list[Actor]:
        """Return the processes that have a lease to lose."""
        return [one for one in self._alive() if one.leases and not one.idle]

    def _one(self) -> Actor | None:
        """Choose a process, mostly one that is at work."""
        alive, at_work = self._alive(), self._at_work()
        chosen = at_work if at_work and self._dice.random() < AIMED else alive
        return chosen[int(self._dice.random() * len(chosen))] if chosen else None

    def _crash(self) -> None:
        one = self._one()
        if one is not None and self.appetite:
            self._costs("crash")
            self._world.crash(one.process)

    def _stop(self) -> None:
        one = self._one()
        if one is None or not self.appetite or self._blocks_all(one):
            return
        holder = self._world.database.holder
        locks = holder is not None and holder.process is one.process
        self._costs("stall", self._lost_by_all() if locks else 1)
        seconds = AWAY[int(self._dice.random() * len(AWAY))]
        process = one.process
        self._world.tell(process, f"is stopped for {seconds:g} s")
        process.stop()
        self._world.later(seconds, lambda: self._continue(process))

    def _blocks_all(self, one: Actor) -> bool:
        """True if all others would wait for it, so that mostly nothing would happen meanwhile."""
        holder = self._world.database.holder
        return holder is not None and holder.process is one.process and self._dice.random() < 0.8

    def _continue(self, process: Process) -> None:
        if process.stalled and process.alive:
            self._world.tell(process, "goes on where it was")
            process.go_on(LATE[int(self._dice.random() * len(LATE))])

    def _jump(self) -> None:
        if self.appetite:
            self._costs("clock set ahead", self._lost_by_all())
            seconds = JUMPS[int(self._dice.random() * len(JUMPS))]
            self._world.ahead += int(seconds * 1_000_000)
            self._world.tell("the world", f"sets the clock ahead by {seconds:g} s")

    def _restart(self) -> None:
        self._end("restart", hurried=False)

    def _hurry(self) -> None:
        if self.appetite:
            self._end("restart in a hurry", hurried=True)

    def _end(self, fault: str, *, hurried: bool) -> None:
        able = [one for one in self._alive() if one.can_end]
        if able:
            one = able[int(self._dice.random() * len(able))]
            if hurried:
                self._costs(fault)
            else:
                self._world.faults[fault] += 1
            self._world.tell(one.process, "is told to end" + (" at once" if hurried else ""))
            one.end(hurried=hurried)

    def _cancel(self) -> None:
        able = [one for one in self._alive() if one.requests]
        if able and self.appetite:
            one = able[int(self._dice.random() * len(able))]
            task = one.requests[int(self._dice.random() * len(one.requests))]
            self._costs("request cancelled")
            self._world.tell(one.process, "has a request whose sender hangs up")
            one.process.soon(task.cancel)
            one.process.run()

    def _prune(self) -> None:
        alive = [one for one in self._alive() if one.prunes]
        if alive:
            one = alive[int(self._dice.random() * len(alive))]
            self._world.faults["prune"] += 1
            one.prune()

    def stop(self) -> None:
        """Begin the quiet: no more faults; stopped processes go on in their time."""
        self.quiet = True
