"""A PgBouncer of a lane's own that is started again when it ends by itself.

Version 1.18 does so now and then when a query is cancelled (pgbouncer#822, #904). In production a
service manager brings it back; here, too, or every later case would fail for want of a pooler.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.servers.bouncer import PgBouncer, find
from tests.support.servers.databases import moved
from tests.support.servers.keeper import LOG
from tests.support.servers.running import LOOPBACK, Missing, Running, running

if TYPE_CHECKING:
    from collections.abc import Iterator

FATAL = " FATAL "


@dataclass(frozen=True, slots=True)
class Returning(PgBouncer):
    """The same program; it is started again when it ends."""

    comes_back = True


@contextmanager
def pooler_of(admin_url: str) -> Iterator[str]:
    """The maintenance database's URL through a PgBouncer in front of it."""
    program = find(os.environ)
    if isinstance(program, Missing):
        raise SystemExit(str(program))
    with running(Returning(program, admin_url)) as started:
        yield moved(admin_url, LOOPBACK, started.place.port)
        told(started)


def told(started: Running) -> None:
    """Say how often it ended by itself: such cases had one fault more."""
    log = (started.place.folder / LOG).read_text(errors="replace")
    for line in log.splitlines():
        if FATAL in line:
            print(f"matrix: PgBouncer ended and was started again: {line}", file=sys.stderr)
