"""Application A: `python -m tests.relay.faults.orders URL ORIGIN COUNT LEASE`.

It takes orders, each in one transaction with the message that tells B of it, and relays at the same
time. Some orders are rolled back; nobody may ever hear of those, and their numbers are negative.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

import duly
from duly.cli.main import main
from tests.relay.faults.relays import APP

if TYPE_CHECKING:
    from duly.jobs.tx import Tx

MODULE = "tests.relay.faults.orders"
CREATE = "CREATE TABLE orders (number integer)"
INSERT = "INSERT INTO orders VALUES (:number)"
NEXT = "SELECT coalesce(max(number), -1) + 1 AS number FROM orders"
# B handles what comes to the one in the request, and what comes to the other in a job.
PATHS = ("/now", "/later")
# Every so many orders there is one that is rolled back.
ROLLED_BACK = 10


class RolledBack(Exception):
    """The customer has changed his mind."""


def order(tx: Tx, origin: str, number: int) -> None:
    """The row, and the message about it."""
    tx.execute(INSERT, number=number)
    tx.send(
        origin + PATHS[number % len(PATHS)],
        json={"type": "order.placed", "number": number},
        sign="ours",
        key=None if number % 3 else f"order-{number}",
    )


def take_orders(app: duly.Duly, origin: str, count: int) -> None:
    """All that are not taken yet, by this process or by those before it."""
    with app.transaction() as tx:
        [row] = tx.execute(NEXT)
    for number in range(row["number"], count):
        if number % ROLLED_BACK == 0:
            roll_back(app, origin, -1 - number)
        take(app, origin, number)


def take(app: duly.Duly, origin: str, number: int) -> None:
    """One order, however long SQLite's only writer is busy."""
    while True:
        try:
            with app.transaction() as tx:
                order(tx, origin, number)
        except duly.errors.InProgress:
            continue
        return


def roll_back(app: duly.Duly, origin: str, number: int) -> None:
    try:
        with app.transaction() as tx:
            order(tx, origin, number)
            raise RolledBack
    except (RolledBack, duly.errors.InProgress):
        return


def run(url: str, origin: str, count: str, lease: str) -> int:
    """Take orders beside `duly relay`."""
    os.environ.update(POST_URL=url, POST_ORIGIN=origin)
    from tests.relay.faults.office import app  # not before it can know where its database is

    taking = threading.Thread(target=take_orders, args=[app, origin, int(count)], daemon=True)
    taking.start()
    return main(["relay", APP, "--lease", lease, "--log-level", "error"])


if __name__ == "__main__":
    sys.exit(run(*sys.argv[1:]))
