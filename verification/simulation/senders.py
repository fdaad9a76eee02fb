"""Senders: each delivers one event, in several copies, until it hears that it was taken.

A request may be lost, a reply may be lost, and a sender that hears nothing in time sends again:
what reaches a receiver is doubled and out of order.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, NamedTuple

from duly.webhooks.sign import sign
from verification.simulation.application import SECRET, SIGNED, UNSIGNED
from verification.simulation.errors import Violation
from verification.simulation.requests import Request

if TYPE_CHECKING:
    from duly.receiver.responses import Reply
    from verification.simulation.actors import ReceiverActor
    from verification.simulation.world import World

# Seconds that a sender waits for a reply, and until it sends again.
PATIENCE = 6.0
AGAIN = 0.4
# What may be answered to a delivery that is genuine: taken, or come again.
TAKEN = 200
LATER = (500, 503)
FORGED = 403


class Content(NamedTuple):
    """What is delivered, and under which name."""

    source: str
    event: str
    body: bytes
    headers: dict[str, str]
    forged: bool = False

    @property
    def fingerprint(self) -> bytes:
        """By which the ledger knows the body."""
        return hashlib.sha256(self.body).digest()


class Heard(NamedTuple):
    """A 2xx that arrived at its sender."""

    content: Content
    said: str


def content(source: str, event: str, facts: dict[str, object], *, forged: bool = False) -> Content:
    """A delivery, signed; or not by whom it should be."""
    secret = "nobody's secret" if forged else SECRET
    if source == "hook":
        body = json.dumps(facts).encode()
        signed = sign(UNSIGNED, body, secret, id=event, now=0.0)
    else:
        body = json.dumps({"id": event, **facts}).encode()
        signed = sign(SIGNED, body, secret, now=0.0)
    return Content(source, event, body, signed.headers, forged)


class Post:
    """The deliveries of a schedule, and what their senders heard."""

    def __init__(self, world: World, receivers: list[ReceiverActor]) -> None:
        self.world = world
        self.receivers = receivers
        self.letters: list[Letter] = []
        self.heard: list[Heard] = []
        self.sent: dict[tuple[str, str], Content] = {}

    def write(self, what: Content, after: float) -> None:
        """Have one more copy delivered, from some time on."""
        letter = Letter(self, what)
        self.letters.append(letter)
        if not what.forged:
            self.sent[what.event, what.fingerprint.hex()] = what
        self.world.later(after, letter.send)

    @property
    def done(self) -> bool:
        """Whether every sender has heard that its delivery was taken, or will never be."""
        return all(letter.done for letter in self.letters)


class Letter:
    """One copy of a delivery."""

    def __init__(self, post: Post, what: Content) -> None:
        self._post = post
        self._world = post.world
        self._what = what
        self._tries = 0
        self.done = False

    def send(self) -> None:
        """Have it posted, when the schedule says so."""
        if not self.done:
            self._tries += 1
            label = f"post {self._what.event}"
            self._world.asked.append(Request(self._world.outside, label, self._arrive))

    def _arrive(self) -> None:
        world, mine = self._world, self._tries
        world.later(PATIENCE, lambda: self._late(mine))
        if not world.nemesis.quiet and world.dice.random() < 0.04:
            world.faults["request lost"] += 1
            return
        receivers = self._post.receivers
        receiver = receivers[int(world.dice.random() * len(receivers))]
        if receiver.process.alive:
            what = self._what
            world.tell("sender", f"posts {what.event} to {receiver.process}")
            receiver.post(what.source, what.headers, what.body, lambda told: self._back(mine, told))
        else:
            self._again()

    def _late(self, attempt: int) -> None:
        """No reply came in time."""
        if attempt == self._tries and not self.done:
            self._world.seen["deliveries that were given up and sent again"] += 1
            self.send()

    def _again(self) -> None:
        mine = self._tries
        self._tries += 1  # what was on its way is not waited for

        def again() -> None:
            if mine + 1 == self._tries:
                self.send()

        self._world.later(AGAIN * (0.5 + self._world.dice.random()), again)

    def _back(self, attempt: int, reply: Reply | None) -> None:
        """The receiver has answered; its answer is on its way."""
        if reply is not None and attempt == self._tries and not self.done:
            label = f"reply to {self._what.event}"
            self._world.asked.append(
                Request(self._world.outside, label, lambda: self._hear(attempt, reply))
            )

    def _hear(self, attempt: int, reply: Reply) -> None:
        world = self._world
        if attempt != self._tries or self.done:
            return
        if not world.nemesis.quiet and world.dice.random() < 0.06:
            world.faults["reply to a sender lost"] += 1
            world.tell("the world", f"loses the reply {reply.status} to {self._what.event}")
            return
        world.tell("sender", f"hears {reply.status} {reply.said} to {self._what.event}")
        self._judge(reply)

    def _judge(self, reply: Reply) -> None:
        if self._what.forged:
            if reply.status != FORGED:
                raise Violation("I13", f"a forged delivery was answered {reply.status}")
            self._world.faults["forged delivery"] += 1
            self.done = True
        elif reply.status == TAKEN:
            self.done = True
            said = json.loads(reply.body)["status"]
            self._world.seen[f"answered {said}"] += 1
            self._post.heard.append(Heard(self._what, said))
        elif reply.status in LATER:
            self._world.seen[f"answered {reply.status}"] += 1
            self._again()
        else:
            raise Violation(
                "I5", f"a genuine delivery of {self._what.event} was answered {reply.status}"
            )
