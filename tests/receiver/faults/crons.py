"""Schedules on a clock in a file: `python -m tests.receiver.faults.crons URL CLOCK`."""

import sys
from datetime import datetime, timedelta
from pathlib import Path

import duly
from duly.jobs.job import AsyncJob, Job
from duly.jobs.tx import AsyncTx
from tests.support.processes.effects import CREATE

# Every minute of New Year's Day, and none of the days after: there the test brings the rest home.
NEW_YEAR = "* * 1 1 *"
EFFECT = "INSERT INTO effects VALUES (:name, 'cron')"
# By a clock that goes an hour in a second, nobody is late.
PATIENT = timedelta(days=1)


class FileClock:
    """Time that moves only when told, in every process that reads the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self) -> datetime:
        return datetime.fromisoformat(self._path.read_text())

    def set(self, moment: datetime) -> None:
        """It is this time, everywhere and at once."""
        fresh = self._path.with_suffix(".fresh")
        fresh.write_text(moment.isoformat())
        fresh.replace(self._path)


def timetable(url: str, clock: FileClock) -> duly.Duly:
    """An application with a schedule of each policy that must miss nothing here."""
    app = duly.Duly(url, clock=clock)

    @app.cron(NEW_YEAR, missed="all", name="all", timeout=PATIENT)
    def every(job: Job, tx: duly.Tx) -> None:
        tx.execute(EFFECT, name=f"all {job.payload['slot']}")

    @app.cron(NEW_YEAR, missed="latest", name="latest", timeout=PATIENT)
    async def latest(job: AsyncJob, tx: AsyncTx) -> None:
        await tx.execute(EFFECT, name=f"latest {job.payload['slot']}")

    return app


def prepare(url: str, clock: FileClock) -> None:
    """Make the tables, and let the schedules begin."""
    app = timetable(url, clock)
    with app.transaction() as tx:
        tx.execute(CREATE)
    app.work()
    app.close()


def main(url: str, path: str) -> None:
    timetable(url, FileClock(Path(path))).work(until="stopped", lease=PATIENT)


if __name__ == "__main__":
    main(*sys.argv[1:])
