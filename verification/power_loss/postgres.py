"""`python -m verification.power_loss postgres`: a cluster on an image, cut off at work.

What is shown: PostgreSQL's files as a file system (ext4) brings them back that lost everything in
memory, and kept everything that it had handed to its disk. Which of the writes since its last flush
a disk with a cache of its own would have lost cannot be seen here.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from contextlib import closing
from typing import TYPE_CHECKING

from tests.support.servers.accounts import new_folder, unprivileged
from tests.support.servers.postgresql import find, origins
from tests.support.servers.running import Missing

from duly.app.output import Progress
from verification.power_loss.cluster import (
    FOR_SAFETY,
    NotServing,
    make_cluster,
    programs_for,
    serving,
)
from verification.power_loss.images import (
    copy_at_one_moment,
    make_image,
    missing,
    mount_apart,
    mounted,
    run,
)
from verification.power_loss.looking import broken
from verification.power_loss.promises import world_after
from verification.power_loss.recovery import recover
from verification.power_loss.report import Report
from verification.power_loss.shop import TABLES, Clock, shop
from verification.power_loss.traffic import Traffic
from verification.power_loss.troubles import failing_syncs, full_disk, until
from verification.power_loss.verdicts import Finding, quiet

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from verification.power_loss.cluster import Server
    from verification.power_loss.promises import World

CUTS, QUICK_CUTS = 12, 3
# How many more deliveries are answered before a cut.
FEWEST, MOST = 5, 30
POWER_CUT, SYNC_FAILS, DISK_FULL = "power cut", "a sync fails", "the disk is full"
# What shows that this lane can fail: the server says that it is done, and has not synced.
UNSAFE = {**FOR_SAFETY, "fsync": "off"}


def run_lane(*, quick: bool, fsync: bool, seed: int) -> Report | Missing:
    """Cut the power a few times, and look each time."""
    lacking = missing()
    if lacking is not None:
        return lacking
    found = find(origins(os.environ))
    if isinstance(found, Missing):
        return found
    began, folder = time.monotonic(), new_folder("power", unprivileged())
    try:
        mount_apart()
        lane = Lane(folder, programs_for(found, folder), fsync=fsync, seed=seed)
        with quiet(), Progress() as progress:
            lane.run(QUICK_CUTS if quick else CUTS, progress)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Report(
        store="postgres",
        setting=lane.setting,
        states=lane.states,
        recovered=lane.recovered,
        flows=lane.flows,
        findings=lane.findings,
        repeat=None,
        seconds=time.monotonic() - began,
    )


class Lane:
    """One cluster, and what was found on the copies of its disk."""

    def __init__(self, folder: Path, programs: Path, *, fsync: bool, seed: int) -> None:
        self._folder, self._programs = folder, programs
        self._image, self._copy = folder / "disk.img", folder / "found.img"
        self._cluster, self._log = folder / "disk" / "cluster", folder / "disk.log"
        self._fsync, self._seed = fsync, seed
        self._dice = random.Random(seed)  # to be repeated
        self.findings: list[Finding] = []
        self.flows: dict[str, int] = {}
        self.recovered = 0
        self._version = ""
        self.setting = ""

    def run(self, cuts: int, progress: Progress) -> None:
        """Set up, cut the power a few times, and then let the disk fail otherwise."""
        make_image(self._image)
        with mounted(self._image, self._folder / "disk") as device:
            make_cluster(self._programs, self._cluster)
            settings = FOR_SAFETY if self._fsync else UNSAFE
            with serving(self._programs, self._cluster, self._log, settings) as server:
                traffic, self._version = self._opened(server), server.version()
                run(["sync", "--file-system", str(self._cluster)])
                for number in range(cuts):
                    progress.show(f"power cut {number + 1} of {cuts}")
                    told = self._cut(server, traffic, device)
                    self._found(POWER_CUT, told, self._on_the_copy(world_after(told)))
                if self._fsync:
                    progress.show(SYNC_FAILS)
                    failing_syncs(server, traffic)
                    self._found(SYNC_FAILS, traffic.told, broken(server.look(), traffic.world()))
                    progress.show(DISK_FULL)
                    full_disk(server, traffic, self._cluster)
                self.setting = self._told_of(traffic)
            self._finish(traffic)

    def _finish(self, traffic: Traffic) -> None:
        """The server that had no space starts once more, and everything is brought to rest."""
        if not self._fsync:
            return
        with serving(self._programs, self._cluster, self._log) as server:
            world = traffic.world()
            self._found(DISK_FULL, traffic.told, self._brought_back(server, world))

    def _found(
        self, trouble: str, told: Sequence[tuple[str, ...]], problems: Iterable[str]
    ) -> None:
        """Note what was looked at, and what was wrong."""
        self.flows[trouble] = self.flows.get(trouble, 0) + 1
        answered = sum(words[0] == "answered" for words in told)
        cut = f"{trouble} {self.flows[trouble]} with seed {self._seed}, after {answered} answers"
        self.findings += [Finding(self.states, cut, one) for one in problems]

    @property
    def states(self) -> int:
        """How many disks were looked at."""
        return sum(self.flows.values())

    def _opened(self, server: Server) -> Traffic:
        """Tables, and who uses them."""
        durability = "required" if self._fsync else "any"
        clock = Clock()
        app = shop(server.url, lambda *_: None, clock, scheduled=False, durability=durability)
        with closing(app):
            app.store.migrate()
        server.run(TABLES)
        traffic = Traffic(server.url, self._seed, durability)
        traffic.tell("created")
        return traffic

    def _cut(self, server: Server, traffic: Traffic, device: Path) -> list[tuple[str, ...]]:
        """Copy what is on the disk while all are at work; what the world knew by then."""
        with traffic.flowing():
            enough = traffic.answered() + self._dice.randint(FEWEST, MOST)
            until(lambda: traffic.answered() >= enough, "the shop does not answer its senders")
            with server.frozen():
                copy_at_one_moment(self._image, device, self._copy)
                return list(traffic.told)

    def _on_the_copy(self, world: World) -> list[str]:
        """The power is back: mount what was on the disk, start a server on it, and look."""
        place = self._folder / "found"
        cluster = place / "cluster"
        try:
            with mounted(self._copy, place):
                # After a real cut no process has this number; here the first server still does.
                (cluster / "data" / "postmaster.pid").unlink(missing_ok=True)
                with serving(self._programs, cluster, self._folder / "found.log") as back:
                    return self._brought_back(back, world)
        except NotServing as problem:
            return [str(problem)]

    def _brought_back(self, server: Server, world: World) -> list[str]:
        """What is wrong with what is there, and once everything was brought to rest."""
        self.recovered += 1
        problems = list(broken(server.look(), world))
        return problems + [f"after recovery {one}" for one in recover(server, world)]

    def _told_of(self, traffic: Traffic) -> str:
        """What happened, in a line."""
        return (
            f"PostgreSQL {self._version} with fsync {'on' if self._fsync else 'off'} on an ext4 "
            f"image: {traffic.answered():,} deliveries answered, {traffic.refused:,} refused"
        )
