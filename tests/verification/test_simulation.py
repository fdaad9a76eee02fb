"""The simulation keeps duly's promises in every schedule, repeats itself, and can fail."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from verification.simulation.__main__ import arguments_of, main
from verification.simulation.campaign import (
    ENOUGH,
    FAULTS,
    NOTHING,
    THINGS,
    Broken,
    Campaign,
    Tally,
    played_all,
    theatre,
)
from verification.simulation.errors import Violation
from verification.simulation.replay import replayed
from verification.simulation.report import document, progress, report
from verification.simulation.schedules import played

from duly.inbox import accept
from duly.inbox.new_event import EventOutcome, Status
from duly.receiver.group_commit import GroupCommit
from duly.relay.dispatcher import Dispatcher
from duly.stores.sql.placeholders import Prepared

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duly.inbox.new_event import NewEvent

ROOT = Path(__file__).parents[2]
# Of each lane, of which there are as many as pytest has workers for.
SCHEDULES = 60
LANES = 4
# How many schedules a planted bug may survive.
SOON = 400
# What happens so often that a few hundred schedules have seen it.
OFTEN = (
    "crash", "stall", "clock set ahead", "restart", "prune", "reply of a commit lost",
    "connection lost", "request lost", "reply to a sender lost", "copy sent", "forged delivery",
    "body changed", "handler raises", "handler kills its process", "receiver fails",
    "receiver's reply lost",
)  # fmt: skip


def seeds(first: int, many: int = SCHEDULES) -> range:
    return range(first, first + many)


@pytest.mark.parametrize("lane", range(LANES))
def test_no_schedule_breaks_a_promise(lane: int) -> None:
    tally = played_all(seeds(1 + lane * SCHEDULES))
    assert tally.broken == (), [one.reproduction for one in tally.broken]
    assert tally.schedules == SCHEDULES
    assert tally.seen["zombie acks tried"] == tally.seen["zombie acks refused"]
    missing = [fault for fault in OFTEN if not tally.faults[fault]]
    assert len(missing) < 3, missing  # sixty schedules may miss the odd one, not most of them


@pytest.mark.long
@pytest.mark.timeout(4 * 60 * 60)
def test_a_hundred_thousand_schedules_break_no_promise_and_miss_no_fault() -> None:
    tally = Campaign(100_000, processes=2).run()
    assert tally.broken == (), [one.reproduction for one in tally.broken]
    assert tally.missing == []
    assert tally.good


def digests(some: Sequence[int]) -> list[str | None]:
    with theatre() as database:
        return [played(seed, database, digest=True).digest for seed in some]


def test_a_seed_plays_the_same_steps_again() -> None:
    some = [3, 7, 11]
    first = digests(some)
    played_all(seeds(500, 5))  # whatever was played before must not matter
    assert digests(some) == first
    assert len(set(first)) == len(some)


# In the second a worker releases two leases that it has lost sight of.
@pytest.mark.parametrize("seed", [7, 243])
def test_a_seed_plays_the_same_steps_in_another_process_with_other_hashes(seed: int) -> None:
    [mine] = digests([seed])
    for hashes in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-m", "verification.simulation", "--replay", str(seed), "--json"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
            timeout=200,
        )
        story = json.loads(done.stdout)
        assert story["digest"] == mine
        assert story["broken"] is None


def test_a_story_tells_who_did_what() -> None:
    story = replayed(7)
    text = "\n".join(story.text())
    for told in ("sender", "receiver-1.1", "worker-1.1", "COMMIT", "jobs_take", "hears 200"):
        assert told in text
    assert "every promise was kept" in text
    assert story.document()["story"] == story.lines


# Planted bugs: each is a line that a tired colleague might write.


def until_broken(most: int = SOON) -> Violation | None:
    """What the first schedule finds that fails."""
    with theatre() as database:
        for seed in range(1, most + 1):
            try:
                played(seed, database)
            except Violation as problem:
                return problem
    return None


@pytest.fixture
def unfenced() -> Iterator[None]:
    """A statement that ends a lease, and asks for nobody's."""
    with theatre() as database:
        before = database.statements["jobs_return"]
        fence = " AND state = 'leased' AND token = :token AND epoch = :epoch"
        assert fence in before.text
        database.statements._prepared["jobs_return"] = Prepared(
            before.text.replace(fence, ""), before.order
        )
        yield
        database.statements._prepared["jobs_return"] = before


@pytest.mark.usefixtures("unfenced")
def test_a_fence_that_is_gone_is_noticed() -> None:
    problem = until_broken()
    assert problem is not None
    assert problem.promise in ("I8", "I7", "I6", "I10")


def test_an_answer_before_the_commit_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    receive, committing = GroupCommit.receive, set()

    async def hasty(self: GroupCommit, events: Sequence[NewEvent]) -> list[EventOutcome]:
        commit = asyncio.ensure_future(receive(self, events))
        committing.add(commit)
        commit.add_done_callback(lambda done: done.cancelled() or done.exception())
        return [EventOutcome(Status.ACCEPTED)] * len(events)

    monkeypatch.setattr(GroupCommit, "receive", hasty)
    problem = until_broken()
    assert problem is not None
    assert problem.promise == "I1"


def test_a_conflict_told_as_a_copy_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(
        event: NewEvent, _: NewEvent | None, outcomes: accept.Outcomes
    ) -> EventOutcome | None:
        outcome = outcomes.get(event.digest)
        return None if outcome is None else accept.outcome_for_copy(outcome)

    monkeypatch.setattr(accept, "outcome_for_other", hasty)
    problem = until_broken()
    assert problem is not None
    assert problem.promise == "I14"


def test_a_message_marked_before_it_is_sent_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from duly.outbox.outcome import SENT

    send = Dispatcher._send

    async def hasty(self: Dispatcher, lane: Any, parcel: Any) -> None:
        self._finish(lane, parcel, SENT)
        await self._completer.flush()
        await asyncio.sleep(0)
        await send(self, lane, parcel)

    monkeypatch.setattr(Dispatcher, "_send", hasty)
    problem = until_broken()
    assert problem is not None
    assert problem.promise in ("I11", "I6")


# The tool itself.


def a_tally(**changes: Any) -> Tally:
    faults, seen = Counter(dict.fromkeys(FAULTS, 3)), Counter(dict.fromkeys(THINGS, 2))
    return NOTHING._replace(
        schedules=ENOUGH, steps=900, faults=faults, seen=seen, seconds=2.0, **changes
    )


def test_a_fault_that_never_fired_fails_the_campaign() -> None:
    assert a_tally().good
    lame = a_tally()
    lame.faults["stall"] = 0
    assert not lame.good
    assert lame.missing == ["stall"]
    assert "NEVER HAPPENED, so nothing is proved about it: stall" in report(lame, Campaign(ENOUGH))


def test_few_schedules_need_not_have_seen_everything() -> None:
    lame = a_tally()._replace(schedules=ENOUGH - 1)
    lame.faults["stall"] = 0
    assert lame.good


def test_a_zombie_that_got_through_fails_the_campaign() -> None:
    tally = a_tally()
    tally.seen["zombie acks refused"] -= 1
    assert not tally.good


def test_a_broken_promise_is_told_with_the_command_that_shows_it() -> None:
    broken = a_tally(broken=(Broken(4711, "I3", "e1 has 2 effects"),))
    assert not broken.good
    text = report(broken, Campaign(ENOUGH))
    assert "BROKEN I3: e1 has 2 effects" in text
    assert "repro: python -m verification.simulation --replay 4711" in text.splitlines()
    told = document(broken, Campaign(ENOUGH))
    assert told["broken"][0]["repro"] == "python -m verification.simulation --replay 4711"
    assert told["good"] is False


def test_progress_fits_on_a_line() -> None:
    line = progress(a_tally(), 100_000)
    assert line.startswith("[")
    assert len(line) < 80


def test_a_campaign_stops_where_too_much_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_broken(some: Sequence[int]) -> Tally:
        broken = tuple(Broken(seed, "I1", "gone") for seed in some)
        return NOTHING._replace(schedules=len(some), broken=broken)

    monkeypatch.setattr("verification.simulation.campaign.played_all", all_broken)
    assert Campaign(10_000).run().schedules < 10_000


def test_help_is_narrow_and_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments_of(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert "--replay 4711" in text


@pytest.mark.parametrize("wrong", ["0", "-3", "many"])
def test_a_number_that_is_none_is_refused(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments_of(["--schedules", wrong])
    assert ended.value.code == 2
    assert "--schedules" in capsys.readouterr().err


def test_a_campaign_answers_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--schedules", "3", "--seed", "900", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schedules"] == 3
    assert told["seed"] == 900
    assert told["broken"] == []
    assert told["steps"] > 0
