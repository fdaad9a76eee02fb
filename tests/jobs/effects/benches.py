"""One job whose runs are begun, crashed and taken over by hand, without a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.jobs.job import AsyncJob, Job

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.jobs.lease import LeasedJob
    from tests.jobs.enqueue.desks import Desk


class Crash(BaseException):
    """The process ends here: nothing of duly's may catch it and write something down."""


class Bench:
    """The runs of one job, and a ledger of what the outside world saw."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.leased = desk.lease()
        # The idempotency key of each call that reached the outside world.
        self.calls: list[str] = []

    @property
    def job(self) -> Any:
        """The job as a handler of the desk's colour sees it in this run."""
        return self.job_under(self.leased)

    def job_under(self, leased: LeasedJob) -> Any:
        """The same under another lease."""
        store = self.desk.app.store
        if self.desk.colour == "async":
            return AsyncJob(leased, self.desk.name, None, store.async_runner)
        return Job(leased, self.desk.name, None, store.sync_runner)

    def take_over(self) -> None:
        """The worker is lost, and another one has the job."""
        self.desk.rescue()
        self.leased = self.desk.lease(rescued=True)

    def steal(self) -> None:
        """Somebody else has the lease now, and this run does not know."""
        self.desk.change(
            "UPDATE duly_jobs SET epoch = epoch + 1, token = NULL WHERE name = '{name}'"
        )

    def effect(
        self,
        answer: Callable[[], Any] = lambda: "charged",
        name: str = "charge",
        *,
        unknown: Any = "retry",
        not_done: Any = (),
        job: Any = None,
    ) -> Any:
        """Take a step in this run; the outside world sees it before it answers."""

        def call(key: str) -> Any:
            self.calls.append(key)
            return answer()

        check = unknown if isinstance(unknown, str) else self.coloured(unknown)
        effect = (job or self.job).effect
        return self.desk.call(effect, name, self.coloured(call), unknown=check, not_done=not_done)

    def coloured(self, call: Callable[[str], Any]) -> Callable[[str], Any]:
        """A function of the key, in the colour of the desk."""
        if self.desk.colour == "sync":
            return call

        async def awaited(key: str) -> Any:
            return call(key)

        return awaited

    def states(self) -> list[tuple[str, str, bytes | None]]:
        """Name, state and result of each effect of the job."""
        rows = self.desk.rows(
            "SELECT name, state, result FROM duly_effects WHERE scope = 'job:{name}' ORDER BY name"
        )
        return [
            (name, state, None if result is None else bytes(result)) for name, state, result in rows
        ]


def raising(problem: BaseException) -> Callable[[], Any]:
    """An outside world that answers with an error."""

    def answer() -> Any:
        raise problem

    return answer
