"""`asyncio.run` returns, in whatever state the pool of its loop is when it ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.processes.leading import PATIENCE, ROOT
from tests.support.processes.loop_ends import LOOPS, MOMENTS, ROUNDS


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_that_ends_without_aclose_ends_whatever_its_pool_is_doing(
    postgres_url: str, loop: str, moment: str
) -> None:
    ending = [sys.executable, "-m", "tests.support.processes.loop_ends", postgres_url, loop, moment]
    try:
        told = subprocess.run(
            ending, cwd=ROOT, stdout=subprocess.PIPE, timeout=PATIENCE, check=True
        ).stdout
    except subprocess.TimeoutExpired as hung:
        told = hung.stdout or b""
    assert told.split() == [b"%d" % number for number in range(ROUNDS)]
