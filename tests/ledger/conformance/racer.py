"""Races for a key: ``python -m tests.ledger.conformance.racer URL SCOPE COLOUR KEYS``.

Says "ready" on its output, waits for a line, then claims every key and prints how each ended.
"""

from __future__ import annotations

import asyncio
import json
import sys

import duly


def main() -> None:
    """Race once."""
    url, scope, colour, keys = sys.argv[1:]
    wanted = [f"evt_{number}" for number in range(int(keys))]
    with duly.store(url) as store:
        print(json.dumps("ready"), flush=True)
        sys.stdin.readline()
        outcomes = (
            [claim(store, scope, key) for key in wanted]
            if colour == "sync"
            else asyncio.run(claim_all(store, scope, wanted))
        )
    print(json.dumps(outcomes), flush=True)


def claim(store: duly.types.Store, scope: str, key: str) -> str:
    """One claim, blocking."""
    try:
        return "first" if duly.dedup(store, scope, key).first else "duplicate"
    except duly.errors.InProgress:
        return "held"


async def claim_all(store: duly.types.Store, scope: str, keys: list[str]) -> list[str]:
    """All claims at once, awaited."""
    try:
        return list(await asyncio.gather(*(claim_awaited(store, scope, key) for key in keys)))
    finally:
        await store.aclose()


async def claim_awaited(store: duly.types.Store, scope: str, key: str) -> str:
    """One claim, awaited."""
    try:
        return "first" if (await duly.aio.dedup(store, scope, key)).first else "duplicate"
    except duly.errors.InProgress:
        return "held"


if __name__ == "__main__":
    main()
