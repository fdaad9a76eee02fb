"""Forged deliveries at an even pace: `python -m benchmarks.ingesting.flood ORDER`.

A process of its own, so that building and sending them takes nothing from the load that is timed.
Prints one line: how many were sent, and what each of them was told.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time
from collections import Counter
from typing import TypedDict, cast

from benchmarks.ingesting.deliveries import head_of, line

CONNECTIONS = 4


class Order(TypedDict):
    """What to send, and where."""

    port: int
    bytes: int
    count: int
    seconds: float


def forged(size: int) -> bytes:
    """A request with a body of about this size, whose signature fits nothing."""
    lines: list[object] = []
    length = 0
    while length < size - 300:
        lines.append(line(len(lines)))
        length += len(json.dumps(lines[-1])) + 2
    body = json.dumps({"type": "invoice.paid", "data": lines}).encode()
    signature = base64.b64encode(bytes(32))
    stamp = str(int(time.time())).encode()
    return head_of() % (b"msg_forged", stamp, signature, len(body), body)


async def send(order: Order, request: bytes, first: int, told: Counter[str]) -> None:
    """Send every fourth request at its time, and read its answer."""
    loop = asyncio.get_running_loop()
    reader, writer = await asyncio.open_connection("127.0.0.1", order["port"])
    begun = loop.time()
    for number in range(first, order["count"], CONNECTIONS):
        due = begun + order["seconds"] * number / order["count"]
        await asyncio.sleep(max(due - loop.time(), 0))
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r")[0])
        await reader.readexactly(length)
        told[head[9:12].decode()] += 1
    writer.close()


async def main(order: Order) -> Counter[str]:
    """All of them, over a few connections."""
    told: Counter[str] = Counter()
    request = forged(order["bytes"])
    await asyncio.gather(*(send(order, request, first, told) for first in range(CONNECTIONS)))
    return told


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(cast("Order", json.loads(sys.argv[1]))))), flush=True)
