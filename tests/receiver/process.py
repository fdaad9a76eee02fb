"""A receiving process: ``python -m tests.receiver.process URL SERVER WAY SOURCE``.

Reads a request a line and prints what came of it, like `tests.support.processes.working`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

from tests.receiver.subjects import Case, DatabaseOf
from tests.support.processes import Led

if TYPE_CHECKING:
    from tests.receiver.senders import Sender


class Receiving(Led):
    """The test's end: a process with one application and a sender of its own."""

    def __init__(self, url: str, case: Case, source: str) -> None:
        super().__init__("tests.receiver.process", url, case.server, case.way, source)


async def deliver(shop: Sender, copies: int, ids: list[str]) -> dict[str, int]:
    """Send many copies of several events at once, and count what was answered."""
    sent = await asyncio.gather(*(shop.send_copies(copies, id=id) for id in ids))
    answers = [answer for several in sent for answer in several]
    return Counter(f"{answer.status} {answer.said}" for answer in answers)


async def serve(url: str, case: Case, source: str) -> None:
    """Serve requests until the pipe is closed."""
    async with case.open(DatabaseOf(url, url), None) as subject:
        shop = subject.source(name=source)
        await shop.send(id="opening")
        print(json.dumps("ready"), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            _, values = json.loads(line)
            print(json.dumps(await deliver(shop, **values)), flush=True)


def main(url: str, server: Any, way: Any, source: str) -> None:
    """One process over a database that others share."""
    kind = "sqlite" if url.startswith("sqlite:") else "postgres"
    asyncio.run(serve(url, Case(cast("Any", kind), server, way), source))


if __name__ == "__main__":
    main(*sys.argv[1:])
