"""The loop that people write first: select one, post it, update, commit; one at a time."""

from __future__ import annotations

import httpx
import psycopg

from benchmarks.relaying.players.by_hand import LEFT, SENT, headers, prepare, staging

__all__ = ["LEFT", "prepare", "relay", "staging"]

NEXT = "SELECT id, message, url, body FROM outbox WHERE sent_at IS NULL ORDER BY id LIMIT 1"


def relay(url: str, port: int) -> None:  # noqa: ARG001
    with psycopg.connect(url) as connection, httpx.Client() as client:
        while row := connection.execute(NEXT).fetchone():
            number, message, to, body = row
            client.post(to, content=body, headers=headers(message)).raise_for_status()
            connection.execute(SENT, (number,))
            connection.commit()
