"""Two loops by hand on duly's own tables: what one process with psycopg can do at best.

`batch` takes a hundred jobs with one statement and settles them with another, writing the same
lease, token and history as duly does. `tx` is given jobs that are claimed already and does BEGIN,
UPDATE, the fenced delete and COMMIT for each, on twenty connections; no history, nothing else.
"""

from __future__ import annotations

import json
import threading
import uuid
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

import duly
from benchmarks.working.begun import BEGUN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from benchmarks.working.playing import Kind

LEFT = "SELECT EXISTS (SELECT FROM duly_jobs)"
BATCH = 100

CLAIM = """
WITH due AS (
    SELECT id FROM duly_jobs
     WHERE queue = 'default' AND state = 'ready' AND NOT waiting AND rescues = 0
     ORDER BY priority, run_at, id
     LIMIT %(batch)s
       FOR UPDATE SKIP LOCKED
)
UPDATE duly_jobs AS job
   SET state = 'leased', token = uuid_send(gen_random_uuid()), epoch = job.epoch + 1,
       worker = %(worker)s, deadline = clock_timestamp() + interval '5 minutes'
  FROM due
 WHERE job.id = due.id
RETURNING job.id, job.token, job.epoch, job.payload
"""
SETTLE = """
WITH done AS (
    DELETE FROM duly_jobs AS job
     USING unnest(%(ids)s::uuid[], %(tokens)s::bytea[], %(epochs)s::bigint[])
           AS leased (id, token, epoch)
     WHERE job.id = leased.id AND job.token = leased.token AND job.epoch = leased.epoch
       AND job.state = 'leased'
    RETURNING job.id, job.scope, job.name, job.event, job.attempts
)
INSERT INTO duly_history (job, scope, name, event, outcome, started, ended, attempts)
SELECT id, scope, name, event, 'done', %(started)s, clock_timestamp(), attempts + 1 FROM done
RETURNING job
"""
SETTLE_ONE = """
DELETE FROM duly_jobs
 WHERE id = %s AND token = %s AND epoch = %s AND state = 'leased'
RETURNING id
"""
ENQUEUE = """
INSERT INTO duly_jobs (id, scope, name, queue, payload, state, run_at, priority, attempts, rescues,
                       max_attempts, epoch)
SELECT id, '', %s, 'default', payload, 'ready', clock_timestamp(), 0, 0, 0, 1, 0
  FROM unnest(%s::uuid[], %s::bytea[]) AS given (id, payload)
"""
UPDATE = "UPDATE accounts SET visits = visits + 1 WHERE id = %s"


class Leased(NamedTuple):
    """A job of a batch."""

    id: uuid.UUID
    token: bytes
    epoch: int
    payload: bytes

    def begin(self) -> int:
        """What every handler does first."""
        number: int = json.loads(self.payload)["number"]
        BEGUN.note(number)
        return number


async def prepare(url: str) -> None:
    duly.store(url).migrate()


async def work(url: str, settings: dict[str, int]) -> None:
    if settings["connections"] == 1:
        work_in_batches(url)
    else:
        work_in_transactions(url, settings["connections"])


def claim(connection: psycopg.Connection[Any], worker: uuid.UUID) -> list[Leased]:
    values = {"batch": BATCH, "worker": worker}
    return [Leased(*row) for row in connection.execute(CLAIM, values, prepare=True)]


def work_in_batches(url: str) -> None:
    """Until there is nothing to take."""
    worker = uuid.uuid4()
    with psycopg.connect(url, autocommit=True) as connection:
        while jobs := claim(connection, worker):
            started = datetime.now(UTC)
            for job in jobs:
                job.begin()
            values = {
                "ids": [job.id for job in jobs],
                "tokens": [job.token for job in jobs],
                "epochs": [job.epoch for job in jobs],
                "started": started,
            }
            settled = connection.execute(SETTLE, values, prepare=True).fetchall()
            if len(settled) != len(jobs):
                raise AssertionError(f"{len(jobs) - len(settled)} leases were lost")


def work_in_transactions(url: str, connections: int) -> None:
    """Claim everything; then every connection takes the next job until none is left.

    In threads: tasks on an event loop were slower by a quarter.
    """
    worker = uuid.uuid4()
    waiting: list[Leased] = []
    with psycopg.connect(url, autocommit=True) as connection:
        while jobs := claim(connection, worker):
            waiting += jobs
    waiting.reverse()
    together = threading.Barrier(connections)
    threads = [
        threading.Thread(target=take, args=(url, waiting, together)) for _ in range(connections)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def take(url: str, waiting: list[Leased], together: threading.Barrier) -> None:
    with psycopg.connect(url, autocommit=True, prepare_threshold=1) as connection:
        cursor = connection.cursor()
        together.wait()
        while waiting:
            try:
                job = waiting.pop()
            except IndexError:  # another was faster
                return
            number = job.begin()
            cursor.execute("BEGIN")
            cursor.execute(UPDATE, (number,))
            cursor.execute(SETTLE_ONE, (job.id, job.token, job.epoch))
            if cursor.rowcount != 1:
                raise AssertionError("a lease was lost")
            cursor.execute("COMMIT")


class Enqueuer:
    """Fills the table; how fast is not asked."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    async def one(self, kind: Kind, number: int) -> None:
        """As many of one."""
        await self.many(kind, [number])

    async def many(self, kind: Kind, numbers: Sequence[int]) -> None:
        """One statement."""
        payloads = [json.dumps({"number": number}).encode() for number in numbers]
        self._connection.execute(ENQUEUE, (kind, [uuid.uuid4() for _ in numbers], payloads))

    async def within(self, kind: Kind, number: int) -> None:
        """As one."""
        await self.one(kind, number)


@asynccontextmanager
async def enqueuing(url: str) -> AsyncIterator[Enqueuer]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield Enqueuer(connection)
