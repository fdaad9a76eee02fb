"""The error of a worker that is no longer the newest holder of a job's lease."""

from __future__ import annotations

from duly._kernel.errors import LeaseLost


class JobLost(LeaseLost):
    """The lease of one job was lost; another lease that a handler lost is its own affair."""

    def __init__(self, job: str, name: str, epoch: int) -> None:
        super().__init__(
            f"the lease on job {job} ({name}, epoch {epoch}) was lost: somebody newer has it, or "
            "it was settled before. What this run wrote is rolled back"
        )
        self.lease = (job, epoch)
