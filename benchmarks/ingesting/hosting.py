"""One contender's server process: `python -m benchmarks.ingesting.hosting ORDER`.

The same HTTP server with the same settings for every contender. granian makes the application in a
process of its own, from a name, so the order travels in the environment as well.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypedDict, cast

from benchmarks.ingesting.bare import Bare, Keep, Values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ORDER = "DULY_BENCHMARK_ORDER"
HOST = "127.0.0.1"


class Order(TypedDict):
    """Which application to serve, and where."""

    store: str
    peer: str
    pool: int  # 0 where the peer has none to choose
    url: str
    server: str
    port: int


def application() -> Any:
    """The application that the order names."""
    order = cast("Order", json.loads(os.environ[ORDER]))
    url, peer = order["url"], order["peer"]
    if peer in ("duly-mounted", "silent"):
        from benchmarks.ingesting import ours

        if peer == "silent":  # which looks for no cause where the log would not have it
            logging.getLogger("duly").setLevel(logging.ERROR)
        return ours.application(url)
    if peer == "ceiling":
        return Bare(nothing_kept)
    if order["store"] == "sqlite":
        from benchmarks.ingesting import on_sqlite

        return {"fastapi": on_sqlite.fastapi, "tuned": on_sqlite.tuned}[peer](url)
    from benchmarks.ingesting import on_postgres

    if peer == "tuned":
        return on_postgres.tuned(url, order["pool"])
    return {"fastapi": on_postgres.fastapi, "cte": on_postgres.cte}[peer](url)


@asynccontextmanager
async def nothing_kept() -> AsyncIterator[Keep]:
    """The ceiling: every delivery is new, and nobody remembers it."""

    async def keep(_: Values) -> bool:
        return True

    yield keep


def on_uvicorn(port: int) -> None:
    import uvicorn

    uvicorn.run(
        "benchmarks.ingesting.hosting:application",
        factory=True,
        host=HOST,
        port=port,
        loop="uvloop",
        http="httptools",
        ws="none",
        access_log=False,
        log_level="warning",
    )


def on_granian(port: int) -> None:
    from granian import Granian
    from granian.constants import HTTPModes, Interfaces, Loops, RuntimeModes
    from granian.log import LogLevels

    Granian(
        "benchmarks.ingesting.hosting:application",
        factory=True,
        address=HOST,
        port=port,
        interface=Interfaces.ASGI,
        workers=1,
        loop=Loops.uvloop,
        http=HTTPModes.http1,
        runtime_mode=RuntimeModes.st,
        websockets=False,
        log_access=False,
        log_level=LogLevels.warning,
    ).serve()


SERVERS = {"uvicorn": on_uvicorn, "granian": on_granian}

if __name__ == "__main__":
    os.environ[ORDER] = sys.argv[1]
    asked = cast("Order", json.loads(sys.argv[1]))
    SERVERS[asked["server"]](asked["port"])
