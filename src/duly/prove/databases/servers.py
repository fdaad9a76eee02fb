"""Which database of which server a connection leads to: a name says little, and others have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from duly.core.extras import needs

if TYPE_CHECKING:
    from collections.abc import Collection

# Seconds for a connection to a server.
PATIENCE = 10
# A server tells itself by the moment at which it was started: copies of it share all else.
ASKED = b"""
SELECT current_database() || ' since ' || extract(epoch FROM pg_postmaster_start_time())
"""
SOCKET = "/.s.PGSQL."


class ConnectionTarget(NamedTuple):
    """Where a connection leads to, as it was spelled."""

    host: str
    port: int
    database: str
    # Its address, which may hold a password and is never printed.
    conninfo: str


class OwnDatabase:
    """duly's own database, by any of its addresses.

    Args:
        url: its address; that of a file, if it is not in a server.
        allowed: servers whose databases are not looked at.
    """

    def __init__(self, url: str, allowed: Collection[tuple[str, int]]) -> None:
        self._url = url
        self._allowed = allowed
        self._known: dict[ConnectionTarget, bool] = {}

    def includes(self, found: ConnectionTarget) -> bool:
        """Whether a connection leads there, or to where it may lead."""
        if (found.host, found.port) in self._allowed:
            return True
        if found not in self._known:
            self._known[found] = self._is_same_server(found)
        return self._known[found]

    def _is_same_server(self, found: ConnectionTarget) -> bool:
        if not self._url.startswith("postgres"):
            return False
        if self._is_same_address(found):
            return True
        told = server_identity(found.conninfo)
        return told is not None and told == server_identity(self._url)

    def _is_same_address(self, found: ConnectionTarget) -> bool:
        """Whether both are spelled alike, with nothing left to settings of the machine."""
        from psycopg.conninfo import conninfo_to_dict

        own, other = conninfo_to_dict(self._url), conninfo_to_dict(found.conninfo)
        if "hostaddr" in own or "hostaddr" in other:
            return False
        spelled = own.get("host"), str(own.get("port")), own.get("dbname")
        return spelled == (found.host, str(found.port), found.database)


def server_identity(conninfo: str) -> str | None:
    """What the server behind an address says of itself; None where it does not answer.

    It is asked past the driver's own connections, which are watched.
    """
    from psycopg import OperationalError
    from psycopg.conninfo import make_conninfo
    from psycopg.pq import PGconn

    try:
        connection = PGconn.connect(make_conninfo(conninfo, connect_timeout=PATIENCE).encode())
        told = connection.exec_(ASKED).get_value(0, 0)
        connection.finish()
    except OperationalError:
        return None
    return None if told is None else told.decode()


def target_of(connection: Any) -> ConnectionTarget:
    """Where a connection of psycopg or asyncpg leads to."""
    with needs("postgres", "psycopg"):
        from psycopg.conninfo import make_conninfo

    info = getattr(connection, "info", None)
    if info is not None:
        secret = {"password": info.password} if info.password else {}
        return ConnectionTarget(
            info.host, info.port, info.dbname, make_conninfo(info.dsn, **secret)
        )
    host, port = address_of(connection._addr)
    told = connection._params
    options = {"host": host, "port": port, "dbname": told.database, "user": told.user}
    if told.password:
        options["password"] = told.password
    return ConnectionTarget(host, port, told.database, make_conninfo("", **options))


def address_of(address: Any) -> tuple[str, int]:
    """Host and port of asyncpg's; a socket of this machine is a folder and a port."""
    if isinstance(address, tuple):
        return str(address[0]), int(address[1])
    folder, _, port = str(address).rpartition(SOCKET)
    return folder, int(port) if port.isdecimal() else 0
