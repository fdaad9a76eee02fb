"""A process that takes one external step, and is killed in the middle of it.

The outside world is the pipe to the test: it sees the key of the step, and never answers.
"""

from __future__ import annotations

import sys
from datetime import timedelta

import duly

# Short, so that the job is given to somebody else soon after the kill.
LEASE = timedelta(milliseconds=300)


def main(url: str, name: str) -> None:
    """Work until killed."""
    app = duly.Duly(url)

    def charge(key: str) -> str:
        print(key, flush=True)
        return sys.stdin.readline()

    @app.job(name=name, queue=name)
    def pay(job: duly.Job) -> None:
        job.effect("charge", charge)

    app.work(queues=[name], lease=LEASE)


if __name__ == "__main__":
    main(*sys.argv[1:])
