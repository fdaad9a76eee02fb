"""The relay: from the first look at the outbox to the last message whose end is written."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from duly._kernel.clock import MICROSECOND
from duly._kernel.errors import DulyError, Held, StoreUnavailable
from duly._kernel.failures import plain
from duly._kernel.options import WAIT
from duly._kernel.session import host_time
from duly.outbox.leases import (
    RESCUED_AT_ONCE,
    Settled,
    destinations,
    outlook,
    rescue,
    settle,
    staged,
    take,
)
from duly.outbox.outcomes import RELEASED, SENT, Circumstances, Ended, Stuck, judged
from duly.outbox.outgoing import is_web
from duly.runtime.janitor import pruning
from duly.runtime.relaying.lanes import AHEAD, Lane
from duly.runtime.relaying.parcels import Parcel
from duly.runtime.relaying.sending import Sender
from duly.runtime.relaying.settings import SLACK
from duly.runtime.relaying.tally import Relayed
from duly.runtime.settler import Settler
from duly.stores.surely import end_surely, surely, to_its_end

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from datetime import timedelta

    from duly._kernel.errors import StoreRefused
    from duly._kernel.session import Session
    from duly.jobs.bell import Bell
    from duly.outbox.leases import LeasedMessage, Want
    from duly.outbox.outgoing import Outgoing
    from duly.runtime.relaying.settings import RelaySettings
    from duly.runtime.taking import Until
    from duly.stores.base import Store

logger = logging.getLogger("duly")
# Seconds between two looks where nothing wakes the relay: short at first, longer while idle.
SOONEST, LATEST = 0.02, 0.5
# Seconds between two looks for further destinations, and for what has come due, while it is busy.
LOOK = 0.25
# A look is worth so many times what it takes of waiting, but not so many seconds.
DEAR, SELDOM = 10.0, 5.0
# Seconds between two flushes of the counters.
COUNTING = 2.0
# Seconds for a database that is busy or restarting when a relay begins.
STARTING = 20.0
# Seconds of its lease that a message must have left, beside its timeout, to be begun.
MARGIN = 1.0
NEVER = float("-inf")
# Seconds that a transport has to obey a cancellation.
OBEYING = 2.0
# Ends that are not written yet, for each message on its way: then nothing more is taken.
UNSETTLED = 4


class RelayParts(NamedTuple):
    """What a relay works with, put together by the application."""

    store: Store
    outgoing: Outgoing
    bell: Bell
    secrets: Sequence[str]


class Relay:
    """One process's share of the sending, in one event loop."""

    def __init__(
        self, parts: RelayParts, settings: RelaySettings, sender: Sender | None = None
    ) -> None:
        self._parts = parts
        self._settings = settings
        self._runner = parts.store.awaited
        # Tests have one that only remembers what it was given.
        self._sender = Sender(parts.outgoing) if sender is None else sender
        self._settler: Settler[Parcel, Settled] = Settler(
            self._runner, settle, buried, self._settled, self._stir
        )
        self._lanes: dict[str, Lane] = {}
        # Those of them that have something waiting here; and how much waits, and is on its way.
        self._laden: dict[str, Lane] = {}
        self._waiting = 0
        self._on_the_way = 0
        # What is staged for transports that this process does not have, and was told of.
        self._strange: set[str] = set()
        # Seconds that the last look took.
        self._dear = 0.0
        self._stirred = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hurried = False
        self._after = ""
        self._looked = NEVER
        # Whether somebody said that there is something new.
        self._rung = False
        # Whether the last look found nothing that can be sent now, and when there may be something.
        self._nothing = False
        self._next_in: int | None = None
        self._pause = SOONEST
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failed: BaseException | None = None
        self.relayed = Relayed()
        self._lease = self._lease_length()

    def _lease_length(self) -> timedelta:
        if self._settings.lease is not None:
            return self._settings.lease
        outgoing = self._parts.outgoing
        calls = [outgoing.egress.deadline, *(one.timeout for one in outgoing.transports.values())]
        return max(calls) + SLACK

    def stop(self) -> None:
        """Take no more messages, and end when those on their way are through. From any thread."""
        self._from_outside(self._stop)

    def stop_now(self) -> None:
        """Give back what is on its way, and end. From any thread."""
        self._hurried = True
        self.stop()

    def wake(self) -> None:
        """Look for messages now. From any thread."""
        if not self._rung:
            self._from_outside(self._ring)

    def _stop(self) -> None:
        self._stopping.set()
        self._stir()

    def _ring(self) -> None:
        """Something was staged: the next round looks, however busy it is."""
        self._rung = True
        self._stir()

    def _stir(self) -> None:
        self._stirred.set()

    def _from_outside(self, call: Callable[[], None]) -> None:
        if self._loop is None:  # it has not begun, and nobody else touches it
            call()
            return
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # its event loop is closed: it has ended
            return

    async def run(self, until: Until = "stopped") -> Relayed:
        """Send until there is nothing to send now, or until told to stop."""
        self._loop = asyncio.get_running_loop()
        self._parts.bell.add(self.wake)
        helpers = [self._loop.create_task(work) for work in self._helpers()]
        for helper in helpers:
            helper.add_done_callback(self._hear_helper)
        try:
            await asyncio.to_thread(self._sender.prepare)
            if await self._patiently():
                await self._work(until)
            await self._drain()
        except BaseException:  # cancelled, or worse: what is held is given back
            await surely(self._abandon())
            raise
        finally:
            await surely(self._end(helpers))
        if self._failed is not None:
            raise self._failed
        return self.relayed

    def _helpers(self) -> list[Coroutine[Any, Any, None]]:
        """What goes on beside the sending itself."""
        return [self._rescuing(), self._counting(), pruning(self._runner)]

    def _hear_helper(self, helper: asyncio.Task[None]) -> None:
        """What goes on beside the work must not end in silence."""
        problem = None if helper.cancelled() else helper.exception()
        if problem is not None:
            logger.critical("a part of this relay failed, it ends: %r", problem)
            self._failed = problem
            self._stop()

    async def _patiently(self) -> bool:
        """Begin although the database is busy or restarting just now, but not if it stays away.

        Returns whether it has begun: one that is told to stop before that owes nothing to anybody.
        """
        until = time.monotonic() + STARTING
        while True:
            try:
                await self._rescue_now()
            except (Held, StoreUnavailable) as problem:
                if self._stopping.is_set():
                    return False
                if time.monotonic() > until:
                    raise
                logger.warning("the relay cannot begin yet, trying again: %s", problem)
                await self._nap(LATEST)
            else:
                return True

    async def _work(self, until: Until) -> None:
        while not self._stopping.is_set():
            self._stirred.clear()
            try:
                if self._full:
                    await self._nap(LATEST)
                elif await self._round():
                    self._pause = SOONEST
                elif await self._rest(until):
                    return
            except DulyError as problem:
                # Held: another process is writing to SQLite, which is how it works.
                told = logger.debug if isinstance(problem, Held) else logger.warning
                told("no messages could be taken, trying again: %s", problem)
                await self._nap(LATEST)

    @property
    def _held(self) -> int:
        return self._waiting + self._on_the_way

    @property
    def _full(self) -> bool:
        """Whether nothing more should be taken before something has ended."""
        most = self._settings.concurrency
        return self._held >= AHEAD * most or self._settler.left > UNSETTLED * most

    async def _round(self) -> int:
        """Take messages and begin to send them; how many."""
        begun = self._start()
        self._nothing = False
        due = self._rung or time.monotonic() - self._looked > self._patience(LOOK)
        if due and not await self._look():
            return begun
        wants = self._wants()
        if wants:  # to its end: what the database has leased must not be forgotten
            begun += await to_its_end(self._take(wants))
        elif not self._held:
            self._looked = NEVER  # nothing is known to be left: the next round looks
            return begun or 1
        return begun + self._start()

    def _patience(self, seconds: float) -> float:
        """How long to wait for the next look: longer where a look is dear.

        What was sent stays in the indexes for as long as any transaction elsewhere could see it,
        and every look walks through it.
        """
        return max(seconds, min(DEAR * self._dear, SELDOM))

    async def _look(self) -> bool:
        """Find the next destinations that have something to send; whether there are any."""
        begun, self._rung = time.monotonic(), False
        try:
            return await self._looked_around()
        finally:
            self._dear = time.monotonic() - begun

    async def _looked_around(self) -> bool:
        seen = await self._runner.run_single(outlook, wait=WAIT)
        self._next_in = seen.next_in
        if seen.lost:
            await self._rescue_now()
        soon = seen.next_in is not None and seen.next_in <= 0
        if not seen.due and not soon:  # a look costs no lock, which matters to SQLite
            self._nothing = True
            return False
        found = await self._found()
        for destination in found:
            self._lane(destination).begin_anew()
        self._forget_idle_lanes()
        self._nothing = not found and not self._after
        return bool(found)

    async def _found(self) -> list[str]:
        """The next destinations by name, after those that the last look found."""
        skipped = [lane.destination for lane in self._lanes.values() if lane.room == 0]
        skipped += self._strange
        after, most = self._after, 2 * self._settings.concurrency

        async def look(session: Session) -> list[str]:
            await staged(session)
            return await destinations(session, after, skipped, most)

        named = await self._runner.run_single(look, wait=WAIT)
        found = [one for one in named if self._known(one)]
        self._after = named[-1] if len(named) >= most else ""
        # Those before the first of these may have something, too: then the next round looks.
        self._looked = NEVER if after and not self._after else time.monotonic()
        if not found and after:
            return await self._found()
        return found

    def _known(self, destination: str) -> bool:
        """Whether this process can send there; another may, or the next deploy."""
        if is_web(destination) or destination in self._parts.outgoing.transports:
            return True
        self._strange.add(destination)
        logger.warning(
            "there are messages to %s:…, and no such transport here: they wait for a relay that "
            "has it",
            destination,
        )
        return False

    def _lane(self, destination: str) -> Lane:
        lane = self._lanes.get(destination)
        if lane is None:
            transport = self._parts.outgoing.transports.get(destination)
            most = self._settings.per_destination if transport is None else transport.concurrency
            lane = self._lanes[destination] = Lane(destination, most)
        return lane

    def _forget_idle_lanes(self) -> None:
        """What nobody sends to any more must not fill the memory."""
        idle = [name for name, lane in self._lanes.items() if lane.forgettable]
        for name in idle:
            del self._lanes[name]

    def _wants(self) -> list[Want]:
        left = AHEAD * self._settings.concurrency - self._held
        lanes = [lane for lane in self._lanes.values() if lane.hungry]
        random.shuffle(lanes)
        wants: list[Want] = []
        for place, lane in enumerate(lanes):
            share = -(-left // (len(lanes) - place))  # an even share of what is left, rounded up
            want = lane.want(share)
            if want.room > 0:
                wants.append(want)
                left -= want.room
        return wants

    async def _take(self, wants: Sequence[Want]) -> int:
        length, asked = self._lease // MICROSECOND, time.monotonic()
        run = (
            self._runner.run_single
            if self._parts.store.capabilities.concurrent_writers
            else self._runner.run
        )
        leases = await run(lambda session: take(session, wants, length), wait=WAIT)
        found: dict[str, list[LeasedMessage]] = {}
        for leased in leases:
            found.setdefault(leased.destination, []).append(leased)
        for want in wants:
            lane, mine = self._lanes[want.destination], found.get(want.destination, [])
            lane.took(want.room, mine)
            if mine:
                lane.waiting.extend(Parcel(leased, asked) for leased in mine)
                self._laden[lane.destination] = lane
        self._waiting += len(leases)
        return len(leases)

    def _start(self) -> int:
        """Begin to send what may be sent, to each destination in turn; how many."""
        begun, room = 0, self._settings.concurrency - self._on_the_way
        for lane in list(self._laden.values()):
            if lane.closed:
                self._release(lane)
        lanes = list(self._laden.values())
        # Whoever has the fewest on their way comes first, or a few slow ones would keep all slots.
        lanes.sort(key=lambda lane: len(lane.running))
        while lanes and begun < room:
            going: list[Lane] = []
            asked = lanes[: room - begun]
            for lane in asked:
                lane.hung = self._sender.hung(lane.destination)
                parcel = lane.next()
                if parcel is None:
                    continue
                self._unloaded(lane)
                going.append(lane)
                if self._lasts(parcel):
                    self._begin(lane, parcel)
                    begun += 1
                else:
                    self._give_back(parcel)
            lanes = [*lanes[len(asked) :], *going]
        return begun

    def _begin(self, lane: Lane, parcel: Parcel) -> None:
        lane.running.add(parcel)
        self._on_the_way += 1
        parcel.begun = time.monotonic()
        self.relayed.begin(parcel)
        parcel.task = asyncio.get_running_loop().create_task(self._send(lane, parcel))

    def _lasts(self, parcel: Parcel) -> bool:
        """Whether the lease is long enough for the call: another relay may have it afterwards."""
        call = self._sender.timeout(parcel.leased.destination)
        return self._left_of(parcel) > min(call + self._margin, self._lease.total_seconds() / 2)

    def _left_of(self, parcel: Parcel) -> float:
        """How many seconds are left of a lease."""
        return parcel.asked + self._lease.total_seconds() - time.monotonic()

    @property
    def _margin(self) -> float:
        """Seconds that must be left of a lease when its call ends."""
        return min(MARGIN, self._lease.total_seconds() / 4)

    async def _send(self, lane: Lane, parcel: Parcel) -> None:
        """One attempt, from its first byte to what is to be written about its end."""
        try:
            await self._sender.send(parcel.leased, self._left_of(parcel) - self._margin)
            ended = SENT
        except asyncio.CancelledError:
            # By the relay, which said how it ends; or by something inside of the transport.
            ended = parcel.ended or self._judged(parcel, RuntimeError("it was cancelled inside"))
        except KeyboardInterrupt:
            self._left(lane, parcel)
            raise
        except Stuck as problem:
            ended = self._judged(parcel, problem)
            self._hear_stuck(problem)
        except BaseException as problem:  # whatever it is: a task that dies would keep its slot
            ended = self._judged(parcel, problem)
        self._finish(lane, parcel, ended)

    def _hear_stuck(self, problem: Stuck) -> None:
        """Threads cannot be ended: a process that has no room for more must start anew."""
        if not self.relayed.stuck:
            logger.critical("%s: this process must start anew", problem)
            self.relayed.stuck = True
            self._stop()

    def _judged(self, parcel: Parcel, problem: BaseException) -> Ended:
        leased = parcel.leased
        passed = int((time.monotonic() - parcel.asked) * 1_000_000)
        clock = self._parts.store.clock
        now = leased.taken_at + passed if clock is None else host_time(clock)
        at = Circumstances(now, random.random(), self._parts.secrets)  # noqa: S311
        return judged(leased, self._parts.outgoing.backoff(leased.destination), problem, at)

    def _finish(self, lane: Lane, parcel: Parcel, ended: Ended) -> None:
        """The slot is free; the end is written with others."""
        if parcel not in lane.running:  # it was given back before, and does not count any more
            return
        parcel.ended = ended
        self._left(lane, parcel)
        if lane.hear(ended):
            logger.warning(
                "%s %s: nothing is sent there for %.1f s",
                lane.destination,
                lane.complaint,
                lane.reopens_in,
            )
            self._release(lane)
        self._settler.add(parcel, Settled(parcel.leased, ended, parcel.ran))
        self._start()
        self._stir()

    def _left(self, lane: Lane, parcel: Parcel) -> None:
        """It is not on its way any more."""
        if parcel in lane.running:
            lane.running.discard(parcel)
            self._on_the_way -= 1

    def _release(self, lane: Lane) -> None:
        """Give back what is held and was not begun."""
        while lane.waiting:
            parcel = lane.waiting.popleft()
            self._unloaded(lane)
            self._give_back(parcel)

    def _unloaded(self, lane: Lane) -> None:
        """One less waits there."""
        self._waiting -= 1
        if not lane.waiting:
            self._laden.pop(lane.destination, None)

    def _give_back(self, parcel: Parcel) -> None:
        parcel.ended = RELEASED
        self._settler.add(parcel, Settled(parcel.leased, RELEASED, 0))

    def _settled(self, run: Parcel, ended: Ended, *, held: bool) -> None:
        if run.begun is not None or not held:
            self.relayed.count(run, ended, held=held)

    async def _rest(self, until: Until) -> bool:
        """Nothing could be taken: wait for a sign of work; whether the relay may end."""
        busy = self._held > 0 or self._settler.left > 0
        if until == "idle" and self._nothing and not busy and not self._stirred.is_set():
            return True
        pause, self._pause = self._pause, min(2 * self._pause, LATEST)
        if busy:
            pause = LATEST
        if self._next_in is not None:
            pause = min(pause, max(self._next_in / 1_000_000, SOONEST))
        if not await self._nap(self._patience(pause)) or not busy:
            self._looked = NEVER
        return False

    async def _nap(self, seconds: float) -> bool:
        """Wait, but not longer than until something stirs; whether something did."""
        try:
            async with asyncio.timeout(seconds):
                return await self._stirred.wait()
        except TimeoutError:
            return False

    async def _rescue_now(self) -> None:
        """Take back every lease that has run out."""
        while True:
            rows = await self._runner.run_single(rescue, wait=WAIT)
            for row in rows:
                self.relayed.count_rescued(row["destination"])
                told = logger.error if row["state"] == "dead" else logger.warning
                told(
                    "message %s to %s was taken back from a lost relay, rescue %s: it is %s",
                    row["id"],
                    row["destination"],
                    row["rescues"],
                    "dead" if row["state"] == "dead" else "sent again, with the same id",
                )
            if len(rows) < RESCUED_AT_ONCE:
                return

    async def _rescuing(self) -> None:
        pause = min(self._lease.total_seconds() / 4, 5.0)
        while True:
            await asyncio.sleep(self._patience(pause) * (0.75 + random.random() / 2))  # noqa: S311
            try:
                await self._rescue_now()
            except DulyError as problem:
                logger.warning("lost leases could not be looked for: %s", problem)

    async def _counting(self) -> None:
        while True:
            await asyncio.sleep(COUNTING)
            try:
                await self.relayed.flush(self._runner)
            except DulyError as problem:
                logger.debug("counters could not be written, they are kept: %s", problem)

    async def _drain(self) -> None:
        """Release what was not begun, let the rest arrive, and give that back when time is up."""
        until = time.monotonic() + self._settings.grace.total_seconds()
        for lane in self._lanes.values():
            self._release(lane)
        while self._running() and not self._hurried and time.monotonic() < until:
            self._stirred.clear()
            await self._nap(0.1)
        await self._abandon(0.0 if self._hurried else max(until - time.monotonic(), 0.0))

    def _running(self) -> list[Parcel]:
        return [parcel for lane in self._lanes.values() for parcel in lane.running]

    async def _abandon(self, patience: float = 0.0) -> None:
        """Give everything back, at once; the database has a while to take it."""
        for lane in self._lanes.values():
            self._release(lane)
        await self._stopped_sending()
        try:
            async with asyncio.timeout(patience + WAIT.total_seconds() + 1.0):
                await self._settler.flushed()
        except TimeoutError:
            logger.warning(
                "%d messages could not be given back, their leases will run out",
                self._settler.left,
            )

    async def _stopped_sending(self) -> None:
        """Stop what is on its way; what does not obey is left behind."""
        running = self._running()
        if running:
            logger.warning(
                "%d messages on their way are given back, and may have arrived", len(running)
            )
        tasks = [parcel.task for parcel in running if parcel.task is not None]
        for parcel in running:
            # It may have arrived: whoever sends it again knows that from the count.
            parcel.ended = Ended("again", rescued=1)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=OBEYING)
        for lane in self._lanes.values():
            for parcel in list(lane.running):
                if parcel.task is not None and not parcel.task.done():
                    logger.warning("message %s does not let itself be stopped", parcel.leased.id)
                    self._finish(lane, parcel, Ended("again", rescued=1))
                else:  # it was cancelled before its first step
                    self._finish(lane, parcel, RELEASED)

    async def _end(self, helpers: Sequence[asyncio.Task[None]]) -> None:
        self._parts.bell.remove(self.wake)
        await end_surely(helpers)
        await self._sender.close()
        try:
            await self.relayed.flush(self._runner)
        except DulyError as problem:
            logger.warning("the last counters could not be written: %s", problem)


def buried(one: Settled, problem: StoreRefused) -> Settled:
    """What to write where the database never takes the end of a message: it is dead."""
    attempt = one.leased.attempts + 1
    error = plain(f"its end was refused: {problem}", attempt, "duly.StoreRefused")
    return one._replace(ended=Ended("dead", burnt=1, error=error))
