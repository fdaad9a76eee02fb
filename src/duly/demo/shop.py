"""The application under test: two sources, sync and async handlers, messages downstream.

Nothing in its tables would stop a second effect: only duly does.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import signal
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import duly
from duly.demo.context import wrapping_index
from duly.demo.events import HUB_SOURCE, SHOP, EventKind, sends_message

if TYPE_CHECKING:
    from duly.demo.context import SharedCounters
    from duly.demo.journal import Journal
    from duly.demo.settings import Settings

# Balances over which the effects spread: with one, every transaction would wait for the last.
ACCOUNTS = 256
ATTEMPTS = 6
BACKOFF = duly.Backoff(first=timedelta(milliseconds=100), cap=timedelta(seconds=2))
# Seconds that a gift takes to wrap: long enough for a fault to hit it.
WRAPPING = 0.5
# The timeout of a gift's handler.
PATIENCE = timedelta(minutes=1)


def key_of(seed: int, purpose: str) -> bytes:
    """Return the secret bytes of one storm, known to all of its processes."""
    return hashlib.sha256(f"{seed} {purpose}".encode()).digest()


def secret_of(seed: int, purpose: str) -> str:
    """Return the same as Standard Webhooks writes it."""
    return "whsec_" + base64.b64encode(key_of(seed, purpose)).decode()


class PoisonedEvent(Exception):
    """Raised by the handler of a poisoned event, every time."""


class FlakyEvent(Exception):
    """Raised by the handler of a flaky event, a few times."""


class ShopHandlers:
    """The handlers of one process."""

    def __init__(
        self,
        settings: Settings,
        shared: SharedCounters,
        journal: Journal,
        *,
        slot: int,
        downstream: str,
    ) -> None:
        self._effect = (
            f"INSERT INTO {settings.table('effects')} (event, amount, job, epoch)"  # noqa: S608
            " VALUES (:event, :amount, :job, :epoch)"
        )
        self._balance = (
            f"UPDATE {settings.table('accounts')} SET balance = balance + :amount, n = n + 1"  # noqa: S608
            " WHERE account = :account"
        )
        self._shared = shared
        self._journal = journal
        self._wrapping = wrapping_index(slot)
        self._downstream = downstream

    def pay(self, event: Any, job: Any, tx: Any) -> None:
        """Handle an event in one transaction, sync."""
        epoch, data = self._record_start(job), event.json["data"]
        tx.execute(self._effect, **self._effect_values(event, job, epoch))
        tx.execute(self._balance, **self._balance_values(data))
        misbehave(data, job)
        if sends_message(data["event"]):
            tx.send(self._downstream, json={"event": event.id}, sign="ours")
        self._journal.record_end(job.id, epoch)

    async def refund(self, event: Any, job: Any, tx: Any) -> None:
        """Handle an event in one transaction, async."""
        epoch, data = self._record_start(job), event.json["data"]
        await tx.execute(self._effect, **self._effect_values(event, job, epoch))
        await tx.execute(self._balance, **self._balance_values(data))
        misbehave(data, job)
        if sends_message(data["event"]):
            await tx.send(self._downstream, json={"event": event.id}, sign="ours")
        self._journal.record_end(job.id, epoch)

    async def wrap(self, job: Any) -> None:
        """Work under a lease without a transaction: it may run again, but it ends once."""
        epoch = self._record_start(job)
        self._shared.add(self._wrapping)
        try:
            await asyncio.sleep(WRAPPING)
        finally:
            self._shared.add(self._wrapping, -1)
        self._journal.record_end(job.id, epoch)

    def _record_start(self, job: Any) -> int:
        # Not public: the ledger compares the epoch with the newest one.
        epoch: int = job._leased.lease.epoch
        self._journal.record_start(job.id, epoch)
        return epoch

    def _effect_values(self, event: Any, job: Any, epoch: int) -> dict[str, Any]:
        amount = event.json["data"]["amount"]
        return {"event": event.id, "amount": amount, "job": job.id, "epoch": epoch}

    def _balance_values(self, data: Any) -> dict[str, Any]:
        return {"amount": data["amount"], "account": data["event"] % ACCOUNTS}


def misbehave(data: Any, job: Any) -> None:
    """Fail or kill as the kind of the event demands, with an effect written and not committed."""
    match data["kind"]:
        case EventKind.POISON:
            raise PoisonedEvent("it fails every time")
        case EventKind.FLAKY if job.attempt <= data["fails"]:
            raise FlakyEvent(f"it fails in attempt {job.attempt}")
        case EventKind.KILLER:
            os.kill(os.getpid(), signal.SIGKILL)
        case _:
            return


def bare_shop(settings: Settings, url: str, downstream: str) -> duly.Duly:
    """Return the application with its sources, without handlers."""
    app = duly.Duly(
        url,
        schema=settings.schema,
        connections=8,
        egress=duly.Egress(allow=[downstream], deadline=timedelta(seconds=3)),
    )
    app.source(SHOP, provider="standard-webhooks", secret=secret_of(settings.seed, SHOP))
    app.source(HUB_SOURCE, provider="github", secret=key_of(settings.seed, HUB_SOURCE).hex())
    app.signer("ours", secret=secret_of(settings.seed, "downstream"))
    return app


def shop(settings: Settings, url: str, downstream: str, handlers: ShopHandlers) -> duly.Duly:
    """Return the application with its handlers."""
    app = bare_shop(settings, url, downstream)
    common: Any = {"attempts": ATTEMPTS, "backoff": BACKOFF}
    # The lease, and not the timeout, must stop a worker that wakes up too late.
    app.on(SHOP, "*.gift", name="wrap", timeout=PATIENCE, **common)(handlers.wrap)
    common["timeout"] = settings.timeout
    app.on(SHOP, "paid*", name="pay", **common)(handlers.pay)
    app.on(SHOP, "refunded*", name="refund", **common)(handlers.refund)
    app.on(HUB_SOURCE, "*", name="note", **common)(handlers.refund)
    return app
