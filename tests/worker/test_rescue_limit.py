"""A run that is ended from outside counts as a rescue, and the last of those is the end."""

from __future__ import annotations

import pytest

from duly.core.retry import RESCUE_LIMIT
from duly.jobs.lease import LeasedJob
from duly.jobs.outcome import RunContext, outcome_of_interruption
from duly.ledger.lease import Lease


@pytest.mark.promise("I9")
@pytest.mark.parametrize("rescues", range(RESCUE_LIMIT))
def test_no_interruption_takes_a_job_beyond_its_limit(rescues: int) -> None:
    leased = LeasedJob(Lease("", b"", 1), "", "", "", None, None, 0, rescues, 1, 0)
    ended = outcome_of_interruption(leased, b"", RunContext(0, 0.5))
    assert ended.rescued == 1
    assert ended.kind == ("dead" if rescues + 1 == RESCUE_LIMIT else "again")
