"""Promises of a claim: one first, whoever asks and however often."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duly import Duplicate, First
from duly.errors import InProgress
from tests.support.sizes import sized

if TYPE_CHECKING:
    from tests.conftest import HandClock
    from tests.ledger.conformance.subjects import Case, Subject

DAY = timedelta(days=1)
MICROSECOND = timedelta(microseconds=1)
LONG_WAIT = timedelta(seconds=60)


async def outcome(asking: asyncio.Future[First | Duplicate]) -> str:
    """How one of many concurrent claims ended."""
    try:
        answer = await asking
    except InProgress:
        return "held"
    return "first" if answer.first else "duplicate"


@pytest.mark.promise("one first")
async def test_of_many_concurrent_claims_exactly_one_is_first(
    case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with case.open(url, clock) as subject:
        asked = [asyncio.ensure_future(subject.dedup(scope, "evt_1")) for _ in range(case.crowd)]
        counted = Counter(await asyncio.gather(*map(outcome, asked)))
        again = await subject.dedup(scope, "evt_1")

    assert counted["first"] == 1
    assert counted["duplicate"] + counted["held"] == case.crowd - 1
    assert again.duplicate


async def test_a_second_claim_is_a_duplicate_that_knows_when_the_first_was_made(
    case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with case.open(url, clock) as subject:
        first = await subject.dedup(scope, "evt_1")
        clock.advance(timedelta(hours=1))
        second = await subject.dedup(scope, "evt_1")

    assert isinstance(first, First)
    assert isinstance(second, Duplicate)
    assert first.first_seen == second.first_seen == clock.moment - timedelta(hours=1)
    assert not second.has_result


async def test_the_same_id_in_two_scopes_is_two_claims(
    case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with case.open(url, clock) as subject:
        assert (await subject.dedup(f"{scope}-a", "evt_1")).first
        assert (await subject.dedup(f"{scope}-b", "evt_1")).first
        assert (await subject.dedup(f"{scope}-a", "evt_1")).duplicate


async def test_scope_and_key_never_run_into_each_other(
    case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with case.open(url, clock) as subject:
        assert (await subject.dedup(f"{scope}a", "b:c")).first
        assert (await subject.dedup(f"{scope}a:b", "c")).first
        assert (await subject.dedup(f"{scope}ab", ":c")).first


async def test_the_same_id_with_another_body_is_a_duplicate_that_says_so(
    case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with case.open(url, clock) as subject:
        await subject.dedup(scope, "evt_1", body=b'{"amount": 1}')
        changed = await subject.dedup(scope, "evt_1", body=b'{"amount": 2}')
        same = await subject.dedup(scope, "evt_1", body=b'{"amount": 1}')
        unsaid = await subject.dedup(scope, "evt_1")

    assert isinstance(changed, Duplicate)
    assert changed.body_differs
    assert isinstance(same, Duplicate)
    assert not same.body_differs
    assert isinstance(unsaid, Duplicate)
    assert not unsaid.body_differs


STRANGE_KEYS: list[str | bytes] = [
    "a",
    b"\x00",
    "\x00",
    "a\x00",
    "a\x00b",
    "a ",
    " a",
    "A",
    "a\n",
    "é",
    "e\u0301",
    "а",  # noqa: RUF001 - Cyrillic, a look-alike of the first key
    "\u200ba",
    "😀",
    "\ud800",
    "1",
    "1.0",
    "01",
    "'; drop table duly_claims; --",
    "%s %(a)s :a $1 ? {}",
    b"\xff\xfe\x00",
    "x" * 2704,
    "y" * 9000,
    "z" * 1_048_576,
    b"z" * 1_048_575,
]


async def test_keys_of_any_length_and_content_stay_apart(
    case: Case, url: str, scope: str, clock: HandClock
) -> None:
    distinct = [key for key in STRANGE_KEYS if key != "\x00"]  # text and its bytes are one key
    async with case.open(url, clock) as subject:
        for key in distinct:
            assert (await subject.dedup(scope, key)).first, repr(key[:20])
        for key in STRANGE_KEYS:
            assert (await subject.dedup(scope, key)).duplicate, repr(key[:20])


async def test_a_claim_expires_at_its_microsecond_and_not_before(
    case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with case.open(url, clock) as subject:
        first = await subject.dedup(scope, "evt_1", ttl=DAY)
        clock.advance(DAY - MICROSECOND)
        assert (await subject.dedup(scope, "evt_1", ttl=DAY)).duplicate
        clock.advance(MICROSECOND)
        anew = await subject.dedup(scope, "evt_1", ttl=DAY)
        assert (await subject.dedup(scope, "evt_1", ttl=DAY)).duplicate

    assert isinstance(first, First)
    assert isinstance(anew, First)
    assert anew.epoch == first.epoch + 1
    assert anew.first_seen == clock.moment


async def test_a_claim_without_a_ttl_is_remembered_for_ever(
    case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with case.open(url, clock) as subject:
        await subject.dedup(scope, "evt_1", ttl=None)
        clock.advance(timedelta(days=36_500))
        await subject.prune()
        assert (await subject.dedup(scope, "evt_1", ttl=None)).duplicate


async def test_options_belong_to_the_call_and_not_to_the_first_user_of_a_store(
    case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with case.open(url, clock) as subject:
        await subject.dedup(scope, "short", ttl=timedelta(seconds=1))
        await subject.dedup(scope, "long", ttl=DAY)
        clock.advance(timedelta(seconds=1))
        assert (await subject.dedup(scope, "short", ttl=DAY)).first
        assert (await subject.dedup(scope, "long", ttl=timedelta(seconds=1))).duplicate


async def test_prune_forgets_what_has_expired_and_nothing_else(
    case: Case, url: str, scope: str, clock: HandClock
) -> None:
    # A time of its own: the database is shared, and prune looks at all of it.
    clock.moment = clock.moment.replace(year=1990)
    async with case.open(url, clock) as subject:
        await drained(subject)
        await subject.dedup_many(scope, [f"short-{n}" for n in range(25)], ttl=DAY)
        await subject.dedup_many(scope, [f"long-{n}" for n in range(5)], ttl=2 * DAY)
        clock.advance(DAY - MICROSECOND)
        assert await subject.prune() == 0
        clock.advance(MICROSECOND)
        assert await subject.prune(limit=10) == 10
        assert await subject.prune(limit=10) == 10
        assert await subject.prune(limit=10) == 5
        assert await subject.prune(limit=10) == 0
        assert (await subject.dedup(scope, "long-1")).duplicate
        assert (await subject.dedup(scope, "short-1")).first


async def drained(subject: Subject) -> None:
    """Forget what an earlier subject left in the shared database."""
    while await subject.prune() > 0:
        pass


@pytest.mark.promise("one first")
async def test_a_claim_that_expires_while_prune_runs_is_taken_by_exactly_one(
    case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with case.open(url, clock) as subject:
        for number in range(sized(5, whole=15)):
            key = f"evt_{number}"
            await subject.dedup(scope, key, ttl=DAY)
            clock.advance(DAY)
            asked = [subject.dedup(scope, key, ttl=DAY, wait=LONG_WAIT) for _ in range(4)]
            *answers, _, _ = await asyncio.gather(*asked, subject.prune(), subject.prune())
            assert Counter(answer.first for answer in answers) == {True: 1, False: 3}


async def test_a_batch_answers_in_the_callers_order_and_repeats_are_duplicates(
    case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with case.open(url, clock) as subject:
        await subject.dedup(scope, "known")
        answers = await subject.dedup_many(scope, ["b", "known", "a", "b", "a", "c"])
        nothing = await subject.dedup_many(scope, [])

    assert [answer.first for answer in answers] == [True, False, True, False, False, True]
    assert nothing == []


async def test_a_batch_takes_over_what_has_expired(
    case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with case.open(url, clock) as subject:
        await subject.dedup_many(scope, ["a", "b"], ttl=DAY)
        await subject.dedup_many(scope, ["c"], ttl=2 * DAY)
        clock.advance(DAY)
        answers = await subject.dedup_many(scope, ["c", "b", "a", "d"], ttl=DAY)
        again = await subject.dedup_many(scope, ["a", "b", "c", "d"], ttl=DAY)

    assert [answer.first for answer in answers] == [False, True, True, True]
    assert not any(answer.first for answer in again)


async def test_batches_in_opposite_orders_never_deadlock_and_share_out_every_key_once(
    case: Case, url: str, scope: str, clock: HandClock
) -> None:
    keys = [f"evt_{number}" for number in range(60)]
    dice = random.Random(7)
    orders = [keys, keys[::-1], *(dice.sample(keys, len(keys)) for _ in range(6))]
    async with case.open(url, clock) as subject:
        batches = [subject.dedup_many(scope, order + order, wait=LONG_WAIT) for order in orders]
        answered = await asyncio.gather(*batches)

    firsts = Counter(
        key
        for order, answers in zip(orders, answered, strict=True)
        for key, answer in zip(order + order, answers, strict=True)
        if answer.first
    )
    assert firsts == dict.fromkeys(keys, 1)


async def test_an_answer_is_not_true_or_false(
    case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with case.open(url, clock) as subject:
        for answer in (await subject.dedup(scope, "a"), await subject.dedup(scope, "a")):
            with pytest.raises(Exception, match=r"if answer\.first"):
                bool(answer)


async def test_a_claim_that_is_made_anew_is_compared_with_its_own_body(
    case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with case.open(url, clock) as subject:
        await subject.dedup(scope, "evt_1", ttl=DAY, body=b"before")
        clock.advance(DAY)
        assert (await subject.dedup(scope, "evt_1", ttl=DAY, body=b"now")).first
        same = await subject.dedup(scope, "evt_1", ttl=DAY, body=b"now")
        other = await subject.dedup(scope, "evt_1", ttl=DAY, body=b"before")
    assert (same.body_differs, other.body_differs) == (False, True)
