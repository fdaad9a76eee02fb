"""What one connection may cost before duly is asked: the server's own parser must have a bound.

The pieces of a request are read by the server, and duly is not asked before its headers are
complete. Plain uvicorn with httptools has no bound for them, nor for the requests that a client
sends ahead of their answers; ``duly serve`` must have.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.server.hostile.crowds import healthy_meanwhile
from tests.server.hostile.servers import MEGABYTE
from tests.server.hostile.wire import delivery

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.server.hostile.servers import Server

pytestmark = pytest.mark.slow

# What a healthy request may take meanwhile.
HEALTHY = 2.0
ROOM = 32 * MEGABYTE
HEAD = b"POST /hooks HTTP/1.1\r\nhost: duly.test\r\n"
STREAMS = {
    "requests ahead of their answers": (
        b"",
        b"".join(delivery(f"ahead_{number}") for number in range(100)),
    ),
    "headers": (HEAD, b"".join(b"x-%d: y\r\n" % number for number in range(2000))),
    "one header": (HEAD + b"x: ", b"y" * 20_000),
    "a target": (b"POST /hooks?", b"y" * 20_000),
}
# Of each: more than any bound, and sent in a few seconds.
SENT = 32 * MEGABYTE


async def pour(server: Server, start: bytes, piece: bytes) -> tuple[int, str]:
    """Send without end and never read, until the server stops reading; how much it took."""
    _, writer = await asyncio.open_connection(*server.address, limit=1)
    taken = 0
    async with healthy_meanwhile(server.address, "beside") as healthy:
        try:
            writer.write(start)
            while taken < SENT:
                writer.write(piece)
                async with asyncio.timeout(1.0):
                    await asyncio.gather(writer.drain(), asyncio.sleep(0))
                taken += len(piece)
        except (TimeoutError, ConnectionError):
            pass  # it has stopped reading, or hung up: that is what keeps it small
        finally:
            writer.transport.abort()
    assert set(healthy.said) <= {"accepted", "duplicate"}
    return taken, str(healthy)


@pytest.mark.parametrize("stream", STREAMS)
def test_a_stream_without_end_on_one_connection_is_held_in_bounded_memory(
    server: Server, stream: str, say: Callable[[str], None]
) -> None:
    server.forget_peak()
    before = server.memory()
    taken, healthy = asyncio.run(pour(server, *STREAMS[stream]))
    grown = server.memory("VmHWM") - before
    say(
        f"{stream} without end: {taken // 1024} KiB were taken, memory grew by "
        f"{grown // MEGABYTE} MB; {healthy}"
    )
    assert grown < ROOM
