"""Who is measured: the peers of each store, and the pools that an expert would try."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

STORES = ("postgres", "sqlite")
SERVERS = ("uvicorn", "granian")
# duly as `duly serve` runs it, and as an ASGI application in the server that all others have.
SERVED, MOUNTED = "duly", "duly-mounted"
PEERS = (SERVED, MOUNTED, "fastapi", "cte", "tuned", "ceiling")
CONNECTIONS = (1, 16, 64, 256)
# The pools of `tuned` on PostgreSQL; its rows are those of the best one.
POOLS = (5, 20, 64)


@dataclass(frozen=True, slots=True)
class Contender:
    """One server process: a peer on a store, behind an HTTP server."""

    store: str
    peer: str
    server: str = SERVERS[0]
    pool: int = 0  # 0 where there is none to choose
    handlers: int = 0  # of duly's, each for a type of its own; 0: one for all
    processes: int = 1

    def row(self, connections: int) -> str:
        """The name of its row; contenders that differ in their pool alone share it."""
        other = "" if self.server == SERVERS[0] else f"@{self.server}"
        return f"{self.store}/{self.peer}{other}/{connections}"

    @property
    def keeps(self) -> bool:
        """Whether it has a database at all."""
        return self.peer != "ceiling"

    @property
    def note(self) -> str:
        """What must be known of its row."""
        # No contender runs the jobs: they are counted at the end.
        return "duly serve --no-worker" if self.peer == SERVED else ""


def contenders(store: str, peers: Sequence[str], servers: Sequence[str]) -> list[Contender]:
    """The contenders of one store, in the order of their rows."""
    found = []
    for server in servers:
        for peer in peers:
            if peer == "tuned" and store == "postgres":
                found += [Contender(store, peer, server, pool) for pool in POOLS]
            elif peer == SERVED and server != SERVERS[0]:
                continue  # `duly serve` brings its own
            elif peer != "cte" or store == "postgres":
                # One statement for both rows is no gain without a round trip to save.
                found.append(Contender(store, peer, server))
    return found
