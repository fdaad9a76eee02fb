"""The world around the application: what it does to a handler, a bank, and a receiver of messages.

All of it has a journal of its own, which is what the checks at the end believe.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from duly import Dead, Retry
from verification.simulation.requests import Request
from verification.simulation.running import here
from verification.simulation.threads import pause, wait

if TYPE_CHECKING:
    from duly import Event
    from duly.jobs.job import AsyncJob, Job
    from duly.outbox.message import Message
    from verification.simulation.world import World

# Seconds that the receiver takes now and then, and longer than it may.
SLOW, TOO_SLOW = 2.8, 3.5
# More runs than any job has.
ALWAYS = 1000


class Trouble(Exception):
    """A handler, a bank or a receiver that fails."""


class Declined(Trouble):
    """The bank has certainly done nothing."""


class Reply(NamedTuple):
    """What the receiver of a message says, and after how many seconds."""

    after: float
    problem: Exception | None


class Plan:
    """What happens to the runs of one handler for one event."""

    def __init__(self, scene: Scene, name: str) -> None:
        self._scene = scene
        self.name = name
        # How many runs fail, whether at their end, and whether each of them takes its process down.
        self.fails = 0
        self.late = False
        self.kills = False
        # Whether the first run that comes so far says that there is no hope.
        self.gives_up = False
        self.pauses = True
        # Seconds that a run takes, before its transaction where it has one.
        self.lasts = 0.0
        self.asks: Literal["retry", "park", "look"] = "retry"
        self.runs = 0

    async def begin(self, job: AsyncJob | None) -> None:
        """The first thing that a handler does."""
        self._count(job)
        if self.pauses:
            await self._scene.pause(self.name)
        if self.kills:
            self._scene.kill()
            await here().loop.create_future()
        self._fail_early()

    def begin_blocking(self, job: Job) -> None:
        """The same on a thread."""
        self._count(job)
        if self.kills:
            self._scene.kill()
            wait()
        self._fail_early()

    async def last(self) -> None:
        """Take a while."""
        if self.lasts:
            await asyncio.sleep(self.lasts)

    def last_blocking(self) -> None:
        """The same on a thread."""
        if self.lasts:
            pause(self.lasts)

    async def middle(self, job: AsyncJob) -> None:
        """While a handler is at work."""
        del job
        if self.pauses:
            await self._scene.pause(self.name)

    def end(self, job: AsyncJob | Job | None) -> None:
        """The last thing that a handler does."""
        del job
        if self.gives_up:
            self._scene.world.faults["handler gives up"] += 1
            raise Dead(f"{self.name} gives up")
        if self.late and self.runs <= self.fails:
            self._raise()

    def unknown(self) -> Any:
        """What the handler says about an effect whose outcome is unknown."""
        return self._scene.look if self.asks == "look" else self.asks

    @property
    def hopeless(self) -> bool:
        """Whether no run will ever succeed."""
        return self.kills or self.gives_up or self.fails >= ALWAYS

    def heal(self) -> None:
        """A person has mended the handler."""
        self.fails, self.asks = 0, "retry"
        self.kills = self.gives_up = False

    def _count(self, job: AsyncJob | Job | None) -> None:
        self.runs += 1
        world = self._scene.world
        lease = "" if job is None else f", lease {job._leased.lease.epoch} of job {job.id[-6:]}"
        world.tell(here(), f"runs {self.name}, for the {self.runs}. time{lease}")

    def _fail_early(self) -> None:
        if not self.late and self.runs <= self.fails:
            self._raise()

    def _raise(self) -> None:
        self._scene.world.faults["handler raises"] += 1
        raise Trouble(f"{self.name} fails, run {self.runs} of {self.fails}")


class Scene:
    """What the processes of a schedule can reach outside of themselves."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.plans: dict[tuple[str, str], Plan] = {}
        # By idempotency key: how often the bank was asked, and what it did for it.
        self.asked: dict[str, int] = {}
        self.charges: dict[str, int] = {}
        # Messages as they arrived: id, idempotency key, body. And those that were refused for good.
        self.receipts: list[tuple[str, str, bytes | None]] = []
        self.refused: set[str] = set()
        # Whether the world does as it should.
        self.quiet = False

    def plan(self, event: Event, handler: str) -> Plan:
        """What happens to a run of a handler."""
        return self.plan_for(event.id, handler)

    def plan_for(self, event: str, handler: str) -> Plan:
        """The same by the event's id."""
        found = self.plans.get((event, handler))
        if found is None:
            found = self.plans[event, handler] = Plan(self, f"{handler}({event})")
        return found

    async def pause(self, label: str) -> None:
        """Let others go on."""
        await Request(here(), f"{label} pauses", lambda: None).answer()

    def kill(self) -> None:
        """The running handler takes its process down."""
        self.world.faults["handler kills its process"] += 1
        self.world.crash(here())

    def _draw(self, *faults: tuple[str, float]) -> str:
        """One of these faults, each with its own chance, or none."""
        if self.quiet:
            return ""
        draw = self.world.dice.random()
        for fault, chance in faults:
            if draw < chance:
                self.world.faults[fault] += 1
                return fault
            draw -= chance
        return ""

    def fail_batch(self) -> None:
        """Fail a batch now and then, at its end."""
        if self._draw(("batch fails", 0.2)):
            raise Trouble("the batch fails")

    # The bank

    async def charge(self, key: str) -> int:
        """Take money, once for each key."""
        number: int = await Request(here(), "charge", lambda: self._charge(key)).answer()
        return number

    def _charge(self, key: str) -> int:
        self.asked[key] = self.asked.get(key, 0) + 1
        fault = self._draw(
            ("effect declined", 0.08), ("effect fails", 0.04), ("effect's reply lost", 0.08)
        )
        if fault == "effect declined":
            raise Declined(fault)
        if fault == "effect fails":
            raise Trouble(fault)
        number = self.charges.setdefault(key, len(self.charges) + 1)
        if fault:
            raise Trouble(fault)
        return number

    async def look(self, key: str) -> dict[str, int] | None:
        """Ask the bank whether it was done."""
        asked = Request(here(), "look", lambda: self._look(key))
        found: dict[str, int] | None = await asked.answer()
        return found

    def _look(self, key: str) -> dict[str, int] | None:
        self.world.seen["unknown effects looked up"] += 1
        number = self.charges.get(key)
        return None if number is None else {"charge": number}

    # The receiver

    async def deliver(self, message: Message, key: str) -> None:
        """Hand a message to the receiver, and wait for what it says."""
        reply: Reply = await Request(
            here(), "deliver", lambda: self._deliver(message, key)
        ).answer()
        if reply.after:
            await asyncio.sleep(reply.after)
        if reply.problem is not None:
            raise reply.problem

    def _deliver(self, message: Message, key: str) -> Reply:
        fault = self._draw(
            ("receiver fails", 0.1), ("receiver's reply lost", 0.06), ("receiver too slow", 0.03),
            ("receiver asks for a pause", 0.03), ("receiver refuses", 0.01),
        )  # fmt: skip
        takes = not self.quiet and self.world.dice.random() < 0.35
        after = SLOW * self.world.dice.random() if takes else 0.0
        if fault == "receiver refuses":
            self.refused.add(message.id)
            return Reply(after, Dead("refused"))
        if fault == "receiver asks for a pause":
            return Reply(after, Retry(after=timedelta(seconds=1)))
        if fault == "receiver fails":
            return Reply(after, Trouble(fault))
        self._receive(message, key)
        if fault == "receiver's reply lost":
            return Reply(after, Trouble(fault))
        return Reply(TOO_SLOW if fault else after, None)

    def _receive(self, message: Message, key: str) -> None:
        if any(message.id == receipt[0] for receipt in self.receipts):
            self.world.seen["messages sent again"] += 1
        self.receipts.append((message.id, key, message.body))
