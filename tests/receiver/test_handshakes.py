"""Questions of providers: answered at once, and no event."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

import pytest

from duly.webhooks import Echo, Handshake, Hmac, Provider
from tests.receiver.drivers import Request
from tests.receiver.senders import text
from tests.webhooks.genuine import keys

if TYPE_CHECKING:
    from tests.conftest import HandClock
    from tests.receiver.subjects import Case, DatabaseOf


def zoom_answer() -> dict[str, str]:
    key = keys("zoom").receiver.encode()
    return {
        "plainToken": "tok",
        "encryptedToken": hmac.new(key, b"tok", hashlib.sha256).hexdigest(),
    }


QUESTIONS = {
    "slack": (
        text({"type": "url_verification", "challenge": "3eZbrw1aB"}),
        {"challenge": "3eZbrw1aB"},
    ),
    "zoom": (
        text({"event": "endpoint.url_validation", "payload": {"plainToken": "tok"}}),
        zoom_answer(),
    ),
    "discord": (text({"type": 1}), {"type": 1}),
}


@pytest.mark.parametrize("provider", QUESTIONS)
async def test_a_signed_question_is_answered_and_writes_nothing(
    stored: Case, place: DatabaseOf, clock: HandClock, provider: str
) -> None:
    question, expected = QUESTIONS[provider]
    async with stored.open(place, clock) as subject:
        sender = subject.source(provider, now=clock)
        before = subject.records.everything()
        for _ in range(2):
            answer = await sender.send(question)
            assert (answer.status, answer.json) == (200, expected)
        forged = await sender.send(question, seed="another")
        assert forged.said == "BAD_SIGNATURE"
        assert subject.records.everything() == before


async def test_a_question_inside_an_inline_source_runs_no_handler(
    inline: Case, place: DatabaseOf, clock: HandClock
) -> None:
    question, expected = QUESTIONS["slack"]
    async with inline.open(place, clock) as subject:
        slack = subject.source("slack", now=clock)
        assert (await slack.send(question)).json == expected
        assert subject.seen == []
        assert subject.records.events(slack.name) == []


async def test_an_answer_without_a_body_has_none(
    stored: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with stored.open(place, clock) as subject:
        discord = subject.source("discord", now=clock)
        answer = await discord.send(text({"type": 0}))
        assert (answer.status, answer.body) == (204, b"")
        assert "content-length" not in answer.headers


async def test_an_unsigned_question_by_get_is_answered_where_a_profile_has_one(
    stored: Case, place: DatabaseOf, clock: HandClock
) -> None:
    asking = Provider(
        "asking",
        scheme=Hmac(header="X-Signature"),
        id="body:id",
        handshakes=(
            Handshake(
                when={"query:challenge": None},
                reply=Echo("query:challenge"),
                signed=False,
                method="GET",
            ),
        ),
    )
    async with stored.open(place, clock) as subject:
        subject.app.source("asking", provider=asking, secret="a secret")
        before = subject.records.everything()
        answer = await subject.ask(Request("/asking", method="GET", query="challenge=abc"))
        assert (answer.status, answer.body) == (200, b"abc")
        assert answer.headers["content-type"].startswith("text/plain")
        nothing = await subject.ask(Request("/asking", method="GET"))
        assert (nothing.status, nothing.said) == (405, "METHOD_NOT_ALLOWED")
        assert subject.records.everything() == before
