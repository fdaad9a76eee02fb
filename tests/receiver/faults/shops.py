"""A small shop that receives deliveries, its senders, and what each of them was told."""

import json
from collections.abc import Iterable
from concurrent.futures import Future
from itertools import count
from types import TracebackType
from typing import Any, Literal, Self

import duly
from duly.jobs.tx import AsyncTx
from duly.webhooks.sign import Signed
from tests.receiver.faults.books import EFFECTS, Books
from tests.receiver.faults.doors import PATIENCE, WAYS, Answer
from tests.support.processes import until

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
EFFECT = "INSERT INTO effects VALUES (:name)"
Mode = Literal["deferred", "inline", "inline async"]
MODES: tuple[Mode, ...] = ("deferred", "inline", "inline async")


def signed(name: str, kind: str = "order.paid") -> Signed:
    """A genuine delivery of the event with this id."""
    body = json.dumps({"type": kind, "order": name}).encode()
    return duly.sign("standard-webhooks", body, SECRET, id=name)


def shop_app(url: str, mode: Mode, **options: Any) -> duly.Duly:
    """An application with one source and one handler, which leaves an effect."""
    app = duly.Duly(url, **options)
    app.source("shop", secret=SECRET, provider="standard-webhooks", inline=mode != "deferred")
    if mode == "inline async":

        @app.on("shop", name="ship")
        async def ship_awaited(event: duly.Event, tx: AsyncTx) -> None:
            await tx.execute(EFFECT, name=event.id)

    else:

        @app.on("shop", name="ship")
        def ship(event: duly.Event, tx: duly.Tx) -> None:
            tx.execute(EFFECT, name=event.id)

    return app


class Senders:
    """The senders' side of the story: what was sent, and what of it was answered 2xx."""

    def __init__(self) -> None:
        self.sent: dict[str, bytes] = {}
        self.told: set[str] = set()
        self._numbers = count(1)

    def delivery(self, name: str = "", kind: str = "order.paid") -> Signed:
        """A new event, named so or by a number."""
        made = signed(name or f"evt_{next(self._numbers)}", kind)
        self.sent[made.headers["webhook-id"]] = made.body
        return made

    def heard(self, delivery: Signed, answer: Answer) -> None:
        """Remember what was acknowledged."""
        if answer.status == 200:
            self.told.add(delivery.headers["webhook-id"])

    def post(self, delivery: Signed) -> Answer:
        """Send and wait for the answer; an `OSError` where there is none."""
        raise NotImplementedError

    def retried(self, delivery: Signed) -> Answer:
        """Send again and again, as a sender does, until it is taken."""

        def taken() -> Answer | None:
            answer = self.post(delivery)
            assert answer.status == 200 or answer.come_again, answer
            return answer if answer.status == 200 else None

        return until(taken)


class Shop(Senders):
    """One application behind one door.

    At its end everything is closed, and the books are compared with what senders were told.
    ``beside`` is the address that leads past whatever stands between the application and its
    database.
    """

    def __init__(
        self, url: str, way: str, mode: Mode = "deferred", *, beside: str = "", **options: Any
    ) -> None:
        super().__init__()
        self.books = Books(beside or url)
        self.mode = mode
        self.app = shop_app(url, mode, **options)
        if self.books.is_sqlite:
            self.app.store.open()
        self.books.ask(EFFECTS)
        self.door = WAYS[way](self.app)

    def send(self, delivery: Signed) -> Future[Answer]:
        """Begin a request."""
        answer = self.door.send(delivery)
        answer.add_done_callback(lambda done: self._hear(delivery, done))
        return answer

    def _hear(self, delivery: Signed, done: Future[Answer]) -> None:
        if not done.cancelled() and done.exception() is None:
            self.heard(delivery, done.result())

    def post(self, delivery: Signed | None = None) -> Answer:
        """Send and wait for the answer."""
        return self.send(delivery or self.delivery()).result(PATIENCE)

    def post_all(self, deliveries: Iterable[Signed]) -> list[Answer]:
        """Send all at the same time."""
        under_way = [self.send(delivery) for delivery in deliveries]
        return [answer.result(PATIENCE) for answer in under_way]

    def warm(self) -> None:
        """Have connections opened and statements seen before the fault."""
        assert self.post().said == "accepted"

    def settle(self) -> None:
        """Check the books while the application runs: forged deliveries are refused as ever."""
        forged = self.delivery("forged")
        forged.headers["webhook-signature"] = "v1,AAAA"
        assert self.post(forged).status == 403
        self.books.check(self.sent, self.told, inline=self.mode != "deferred")
        assert "forged" not in self.books.events()
        self.books.idle()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if problem is None:
            try:
                self.settle()
            finally:
                self.door.close()
            self.books.alone()
        else:
            self.door.close()
