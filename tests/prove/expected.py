"""What a proof says about each handler of the sample shop, on whatever database."""

from __future__ import annotations

from typing import NamedTuple

from duly.prove import mistakes as known


class Mistaken(NamedTuple):
    """A mistake that must be found: by which name, in which words, and with which remedy."""

    events: tuple[str, ...]
    name: str
    # What was done to it, what came of it, and what to do.
    story: tuple[str, ...]


MISTAKES = [
    Mistaken(
        ("invoice",),
        known.BLIND_INSERT,
        (
            "killed after INSERT INTO bookings",
            "bookings has the row (",
            "invoice='i-1'",
            "2 times instead of once",
            "insert it through `tx`",
            "ON CONFLICT DO NOTHING",
        ),
    ),
    Mistaken(
        ("points",),
        known.DELTA,
        (
            "killed after UPDATE accounts SET balance = balance + ",
            "accounts.balance of id=7 is 300 instead of 200",
            "The update is a delta outside the transaction: set a state, or move it into `tx`.",
        ),
    ),
    Mistaken(
        ("paid",),
        known.MARK_FIRST,
        (
            "killed after INSERT INTO seen",
            "orders.state of id='o-1' is 'new' instead of 'paid'",
            "INSERT INTO seen",
            "write the mark and do the work through `tx`, in one COMMIT",
        ),
    ),
    Mistaken(
        ("shipped",),
        known.CHECK_THEN_ACT,
        (
            "killed after ",
            "2 times instead of once",
            "between the look at orders and the mark there",
            "tx.send(…)",
        ),
    ),
    Mistaken(
        ("confirmed",),
        known.NO_KEY,
        (
            "killed after POST https://bank.example/charges",
            "POST https://bank.example/charges was made 2 times instead of once",
            "It carries no Idempotency-Key",
            "job.http",
            "job.key(…)",
            "tx.send(…)",
        ),
    ),
    Mistaken(
        ("partner",),
        known.BEFORE_CLAIM,
        (
            "delivered twice",
            "visits has the row (partner='north') 2 times instead of once",
            "INSERT INTO visits (partner)",
            "before the event is claimed",
            "move it into the handler",
        ),
    ),
    Mistaken(
        ("state", "state-later"),
        known.ORDER,
        (
            "delivered in the other order",
            "orders.state of id='o-1' is 'packed' instead of 'sent'",
            "order=(",
            "tx.newer(…)",
        ),
    ),
]
RIGHT = [("payment",), ("refund",), ("stock", "stock-later")]
