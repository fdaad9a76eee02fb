"""Jobs that run until a test lets them end, and jobs that came back from lost workers."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tests.worker.subjects import seen

if TYPE_CHECKING:
    from tests.worker.subjects import Hand, Subject


class Lingering:
    """A handler whose runs are known by their payloads, and last until they are let go."""

    def __init__(self) -> None:
        self.running: list[str] = []
        # What ran when each began, and how each of them ended.
        self.beside: dict[str, list[str]] = {}
        self.ended: list[str] = []
        self._let_go: set[str] = set()

    async def __call__(self, hand: Hand) -> None:
        name = hand.job.payload
        self.beside[name] = list(self.running)
        self.running.append(name)
        ended = "cancelled"
        try:
            while name not in self._let_go:
                await hand.pause(0.01)
            ended = "through"
        finally:
            self.running.remove(name)
            self.ended.append(f"{name} {ended}")

    def let_go(self, *names: str) -> None:
        """Let these end, now or when they begin."""
        self._let_go |= set(names)

    async def run(self, *names: str) -> None:
        """Until these run, and no others."""
        await seen(lambda: sorted(self.running) == sorted(names))


async def came_back(subject: Subject, rescues: int, payload: str, **options: Any) -> str:
    """Enqueue a job that can be taken now, and was lost with its worker so often."""
    id = await subject.enqueue(payload=payload, delay=timedelta(hours=1), **options)
    give_back(subject, id, rescues)
    return id


def give_back(subject: Subject, id: str, rescues: int) -> None:
    """Have a job taken from whoever has it, as if its worker were lost."""
    subject.records.run(
        f"UPDATE duly_jobs SET state = 'ready', waiting = false, rescues = {rescues},"
        " token = NULL, worker = NULL, deadline = NULL, run_at = created_at"
        f" WHERE id = '{id}'"
    )
