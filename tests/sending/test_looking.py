"""One message is looked at by its id: what it waits for, how often it failed, and why."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import duly
from duly._kernel.onestep import finish
from duly.outbox.letters import Gone, looked_up
from tests.sending.offices import STORES, an_office, relaying
from tests.watching import until

if TYPE_CHECKING:
    from tests.conftest import HandClock
    from tests.working.subjects import Case, DatabaseOf

every_store = pytest.mark.parametrize("case", STORES, ids=lambda case: case.name)
MINUTE = timedelta(minutes=1)
