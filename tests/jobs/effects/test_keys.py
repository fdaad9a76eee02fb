"""The idempotency key of a step: the same in every run of it, and in no other step."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.jobs.job import Job
from duly.jobs.lease import LeasedJob
from duly.ledger.lease import Lease
from tests.jobs.enqueue.desks import CASES, Case
from tests.webhooks.genuine import keys

if TYPE_CHECKING:
    from pathlib import Path

    from tests.jobs.effects.benches import Bench

everywhere = pytest.mark.parametrize("case", CASES, ids=str)
SECRET = keys("github").receiver
NOWHERE: Any = None
PLAIN = "6e89365fcf17616eb96fe9c00edcade27cb80a209830b0fdfd470e1bdf56f8e9"
EVENT = "2c86f6257cc5dd7ba2ad9fabab366450a6fb738b4b3e9cd943beb9480026f98e"


def the_job(
    job: str, scope: str = "job:pay", handler: str = "pay", event: str | None = None
) -> Job:
    """A job by what its keys are made of."""
    lease = Lease(job, b"", 1)
    known: dict[str, Any] = {"lease": lease, "scope": scope, "name": handler, "attempts": 0}
    return Job(LeasedJob(**{**dict.fromkeys(LeasedJob._fields), **known}), handler, event, NOWHERE)


def test_two_steps_never_share_a_key() -> None:
    plain = [the_job(job) for job in ("a", "ab")]
    events = [
        the_job("a", scope, handler, event)
        for scope in ("s", "st", "t/s")
        for handler in ("h", "th", "h:e")
        for event in ("e", "he", "e\0", "job")
    ]
    names = ("charge", "charg", "echarge", "e:charge", "Charge", "charge ", "\u00e9", "e\u0301")
    made = [job.key(name) for job, name in itertools.product([*plain, *events], names)]

    assert len(set(made)) == len(made)
    assert all(len(key) == 64 and key.isalnum() for key in made)


def test_a_key_is_the_one_it_was_in_the_last_release() -> None:
    """A key that changed with a deploy would let a step be taken twice."""
    assert the_job("01a1e301-883f-7e51-8499-02102bf99c83").key("charge") == PLAIN
    assert the_job("any", "acme/stripe", "pay", "evt_1").key("charge") == EVENT


@everywhere
def test_the_key_of_a_job_is_the_same_in_every_attempt_rescue_and_replay(
    case: Case, bench: Bench
) -> None:
    seen = [bench.job.key("charge")]
    bench.take_over()
    seen.append(bench.job.key("charge"))
    bench.desk.change(  # as a failed attempt, its death and a replay leave it
        "UPDATE duly_jobs SET state = 'ready', attempts = 1, rescues = 0, token = NULL, "
        "worker = NULL WHERE name = '{name}'"
    )
    bench.leased = bench.desk.lease()
    seen.append(bench.job.key("charge"))

    assert (bench.job.attempt, bench.leased.lease.epoch) == (2, 3)
    assert len(set(seen)) == 1


def test_the_key_of_an_event_is_the_same_after_it_was_forgotten(tmp_path: Path) -> None:
    app = duly.Duly(f"sqlite:///{tmp_path / 'shop.db'}")
    app.source("github", secret=SECRET)
    seen: list[tuple[str, str]] = []
    charged: list[str] = []

    @app.on("github", name="pay")
    def pay(event: duly.Event, job: duly.Job) -> None:
        seen.append((job.id, job.key("charge")))
        job.effect("charge", charged.append)

    @app.on("github", name="other")
    def other(event: duly.Event, job: duly.Job) -> None:
        seen.append((job.id, job.key("charge")))

    signed = duly.sign("github", b'{"action":"opened"}', SECRET, id="evt_1", type="issues")
    for _ in range(2):
        assert app.receive("github", signed.headers, signed.body).status == 200
        app.work()
        assert app.forget("github", "evt_1").event_id == "evt_1"
    app.close()

    assert len({job for job, _ in seen}) == 4
    assert len({key for _, key in seen}) == 2  # one for each handler
    assert len(charged) == 1
