"""What kind of server this is: refuse one that could lose an acknowledged event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from duly.core.errors import UnsafeStore

if TYPE_CHECKING:
    from duly.core.session import Session

Durability = Literal["required", "any"]
SERVER_CHECK = "server_check"
OLDEST = 140000


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a first look at the server told."""

    version: int
    standby: bool
    fsync: bool
    synchronous_commit: bool
    process: int

    def is_behind_pooler(self, backend_pid: int) -> bool:
        """Whether the process that answered is not the one the connection was greeted by.

        Behind a pooler the next statement may meet another process, so nothing may be kept on
        the server's side between two transactions: no prepared statements, no session settings.
        """
        return self.process != backend_pid


async def inspect_server(session: Session) -> ServerInfo:
    """Ask the server what it is."""
    [row] = await session.rows(SERVER_CHECK)
    return ServerInfo(**row)


def refuse_unsafe(server: ServerInfo, durability: Durability) -> None:
    """Raise where a COMMIT that was answered could be lost."""
    if server.version < OLDEST:
        raise UnsafeStore(
            f"PostgreSQL {server.version // 10000} is too old: duly needs 14 or newer"
        )
    if server.standby:
        raise UnsafeStore(
            "this PostgreSQL server is a standby and takes no writes: use the primary's address"
        )
    if durability == "any":
        return
    for setting, is_on in (
        ("fsync", server.fsync),
        ("synchronous_commit", server.synchronous_commit),
    ):
        if not is_on:
            raise UnsafeStore(
                f"this PostgreSQL server runs with {setting} = off, so a power cut can lose what "
                f'was acknowledged: switch it on, or pass durability="any" to accept the loss'
            )
