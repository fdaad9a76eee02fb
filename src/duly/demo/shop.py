"""The application in the storm: two sources, handlers of every colour, messages downstream.

Nothing in its tables would stop a second effect: only duly stands between an event and a double.
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
from duly.demo.events import HUB_SOURCE, SHOP, EventKind, tells
from duly.demo.shared_counters import wrapping_index

if TYPE_CHECKING:
    from duly.demo.journal import Journal
    from duly.demo.settings import Settings
    from duly.demo.shared_counters import SharedCounters

# Balances over which the effects spread: with one, every transaction would wait for the last.
ACCOUNTS = 256
ATTEMPTS = 6
BACKOFF = duly.Backoff(first=timedelta(milliseconds=100), cap=timedelta(seconds=2))
# Seconds that a gift takes to wrap: long enough to be caught at it.
WRAPPING = 0.5
# How long it may take, at most.
PATIENCE = timedelta(minutes=1)


def key_of(seed: int, purpose: str) -> bytes:
    """The secret bytes of one storm: different in each, and known to all of its processes."""
    return hashlib.sha256(f"{seed} {purpose}".encode()).digest()


def secret_of(seed: int, purpose: str) -> str:
    """The same as Standard Webhooks writes it."""
    return "whsec_" + base64.b64encode(key_of(seed, purpose)).decode()


class PoisonedEvent(Exception):
    """What the handler of a poisoned event raises."""


class FlakyEvent(Exception):
    """What the handler of a flaky event raises, a few times."""


class ShopHandlers:
    """What the handlers of one process need."""

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
        """Handle an event in one transaction, blocking."""
        epoch, data = self._record_start(job), event.json["data"]
        tx.execute(self._effect, **self._effect_values(event, job, epoch))
        tx.execute(self._balance, **self._balance_values(data))
        misbehave(data, job)
        if tells(data["event"]):
            tx.send(self._downstream, json={"event": event.id}, sign="ours")
        self._journal.record_end(job.id, epoch)

    async def refund(self, event: Any, job: Any, tx: Any) -> None:
        """The same, awaited."""
        epoch, data = self._record_start(job), event.json["data"]
        await tx.execute(self._effect, **self._effect_values(event, job, epoch))
        await tx.execute(self._balance, **self._balance_values(data))
        misbehave(data, job)
        if tells(data["event"]):
            await tx.send(self._downstream, json={"event": event.id}, sign="ours")
        self._journal.record_end(job.id, epoch)

    async def wrap(self, job: Any) -> None:
        """Work under a lease, with no transaction: what it does may happen again, its end not."""
        epoch = self._record_start(job)
        self._shared.add(self._wrapping)
        try:
            await asyncio.sleep(WRAPPING)
        finally:
            self._shared.add(self._wrapping, -1)
        self._journal.record_end(job.id, epoch)

    def _record_start(self, job: Any) -> int:
        # A handler has no use for its epoch; the ledger compares it with the newest one.
        epoch: int = job._leased.lease.epoch
        self._journal.record_start(job.id, epoch)
        return epoch

    def _effect_values(self, event: Any, job: Any, epoch: int) -> dict[str, Any]:
        amount = event.json["data"]["amount"]
        return {"event": event.id, "amount": amount, "job": job.id, "epoch": epoch}

    def _balance_values(self, data: Any) -> dict[str, Any]:
        return {"amount": data["amount"], "account": data["event"] % ACCOUNTS}


def misbehave(data: Any, job: Any) -> None:
    """Do what the kind of the event demands, with an effect written and nothing committed."""
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
    """The application with its sources, and no handlers yet."""
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


def shop(settings: Settings, url: str, downstream: str, handling: ShopHandlers) -> duly.Duly:
    """The application."""
    app = bare_shop(settings, url, downstream)
    common: Any = {"attempts": ATTEMPTS, "backoff": BACKOFF}
    # A worker that wakes up past its lease is to be stopped by its lease, not by its timeout.
    app.on(SHOP, "*.gift", name="wrap", timeout=PATIENCE, **common)(handling.wrap)
    common["timeout"] = settings.timeout
    app.on(SHOP, "paid*", name="pay", **common)(handling.pay)
    app.on(SHOP, "refunded*", name="refund", **common)(handling.refund)
    app.on(HUB_SOURCE, "*", name="note", **common)(handling.refund)
    return app
