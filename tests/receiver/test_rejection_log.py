"""A rejected delivery: the sender learns what it always learned, and the log tells why.

What that costs is counted here and not timed; `python -m benchmarks rejections` compares times.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import duly
from duly.core.errors import Code
from duly.receiver import rejections
from duly.webhooks.diagnose import explain
from duly.webhooks.diagnose.explain import KINDS
from tests.receiver.faults.doors import PATIENCE, WAYS, AsgiDoor
from tests.support.processes import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly.webhooks.sign import Signed

SECRET, OLD = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_aGVsbG8gb2xkIHNlY3JldCBvZiBteXNob3A="
WRONG = "whsec_bm90IHRoZSBzZWNyZXQgb2YgdGhlIHNob3A="
PROVIDER = "standard-webhooks"
LINE = re.compile(r"a delivery to (\w+) was rejected \((\w+), (\w+)\): (.*)")
MEBIBYTE = 1024 * 1024


class HandTime:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Shop:
    """An application behind a door, what its log says, and which diagnoses were made."""

    app: duly.Duly
    door: Any
    caplog: pytest.LogCaptureFixture
    time: HandTime = field(default_factory=HandTime)
    diagnosed: list[tuple[int, int]] = field(default_factory=list)

    def post(self, delivery: Signed, path: str = "/shop") -> Any:
        return self.door.send(delivery, path).result(PATIENCE)

    def lines(self) -> list[tuple[str, ...]]:
        """Source, code, kind and sentence of every line about a rejection."""
        said = [record.getMessage() for record in self.caplog.records]
        return [found.groups() for one in said if (found := LINE.fullmatch(one))]

    def told(self, number: int) -> list[tuple[str, ...]]:
        """The lines, once there are so many."""
        return until(lambda: found if len(found := self.lines()) >= number else None)

    def rest(self, seconds: float = 1000.0) -> None:
        """Let time pass, once the thread of the diagnoses has nothing left to do."""
        until(lambda: True if self.app.receiver.rejections._thread is None else None)
        self.time.now += seconds


@pytest.fixture(params=["asgi", "wsgi"])
def shop(
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Shop]:
    """One source with a secret that has ended, and another source beside it."""
    app = duly.Duly("memory:")
    ended = duly.Secret(OLD, name="old", not_after=datetime.now(UTC) - timedelta(days=1))
    app.source("shop", secret=[duly.Secret(SECRET, name="new"), ended], provider=PROVIDER)
    app.source("later", secret="whsec_bGF0ZXIgYW5kIGxhdGVyIGFuZCBsYXRlcg==", provider=PROVIDER)
    for name in ("shop", "later"):
        app.on(name, name=f"take_{name}")(take)
    caplog.set_level(logging.WARNING, "duly")
    shop = Shop(app, WAYS[request.param](app), caplog)
    app.receiver.rejections._seconds = shop.time
    diagnose = explain.diagnose

    def watched(case: Any, *more: Any) -> Any:
        shop.diagnosed.append((threading.get_ident(), len(case.delivery.body)))
        return diagnose(case, *more)

    monkeypatch.setattr(rejections, "diagnose", watched)
    yield shop
    shop.door.close()


def take(event: duly.Event) -> None:
    """A handler, so that no warning is about its absence."""
    assert event.id


def signed(secret: str = WRONG, size: int = 0, **members: object) -> Signed:
    body = json.dumps({"type": "order.paid", "pad": "x" * size, **members}).encode()
    return duly.sign(PROVIDER, body, secret, id="evt_1")


def rewritten(delivery: Signed) -> Signed:
    body = json.dumps(json.loads(delivery.body), separators=(",", ":")).encode()
    return delivery._replace(body=body)


CASES: dict[str, tuple[Callable[[], Signed], str, str]] = {
    "wrong secret": (lambda: signed(WRONG), "unexplained", "fits none of the secrets"),
    "written again": (
        lambda: rewritten(signed(SECRET)), "changed_body", "was parsed and written again",
    ),
    "ended secret": (lambda: signed(OLD), "good_signature", "the secret 'old', which ended on"),
}  # fmt: skip


def test_each_cause_of_a_rejection_is_told_in_the_log_with_the_sentence_of_explain(
    shop: Shop,
) -> None:
    answers = []
    for number, (make, kind, sentence) in enumerate(CASES.values(), 1):
        delivery = make()
        answers.append(shop.post(delivery))
        source, code, told, said = shop.told(number)[-1]
        assert (source, code, told) == ("shop", "BAD_SIGNATURE", kind)
        assert sentence in said
        assert said == duly.explain(
            shop.app.router.routes["/shop"].source, delivery.headers, delivery.body
        )
        shop.rest()
    assert len({(one.status, json.dumps(one.body)) for one in answers}) == 1
    assert len(shop.lines()) == len(CASES)


def test_a_delivery_for_another_source_is_told_as_such(shop: Shop) -> None:
    shop.post(signed(SECRET), "/later")
    [(source, _, kind, said)] = shop.told(1)
    assert (source, kind) == ("later", "other_source")
    assert "genuine delivery of the source 'shop'" in said


def test_a_thousand_large_forgeries_are_never_diagnosed_and_share_one_line(shop: Shop) -> None:
    forged = signed(size=MEBIBYTE - 100)
    for _ in range(10):
        under_way = [shop.door.send(forged) for _ in range(100)]
        assert {one.result(PATIENCE).status for one in under_way} == {403}
    [(_, code, kind, said)] = shop.lines()
    assert (code, kind) == ("BAD_SIGNATURE", "large_body")
    assert f"not diagnosed: it has {len(forged.body):,} bytes, more than 65,536" in said
    shop.rest(60)
    shop.post(forged)
    assert shop.lines()[1][3].endswith(" 999 more were rejected for this cause.")
    assert shop.diagnosed == []


def test_a_flood_is_diagnosed_once_a_second_and_never_on_the_thread_that_answers(
    shop: Shop,
) -> None:
    inside: set[int] = set()
    app_note = shop.app.receiver.rejections.note

    def note(rejection: rejections.Rejection) -> None:
        inside.add(threading.get_ident())
        app_note(rejection)

    shop.app.receiver.rejections.note = note  # type: ignore[method-assign]
    for forged in [signed(size=number) for number in range(200)]:
        assert shop.post(forged).status == 403
    shop.rest()
    assert len(shop.diagnosed) == 1
    for forged in [signed(size=number) for number in range(200)]:
        shop.post(forged)
    shop.rest()
    assert len(shop.diagnosed) == 2
    assert inside
    assert inside.isdisjoint(thread for thread, _ in shop.diagnosed)
    if isinstance(shop.door, AsgiDoor):
        assert shop.door._thread.ident not in {thread for thread, _ in shop.diagnosed}
    assert len(shop.lines()) == 2
    shop.app.receiver.rejections.close()
    said = " ".join(record.getMessage() for record in shop.caplog.records)
    assert sum(map(int, re.findall(r"(\d+) more (?:were|deliveries)", said))) == 398


def test_bodies_up_to_the_limit_are_diagnosed_and_larger_ones_are_not(shop: Shop) -> None:
    smallest = len(signed().body)
    shop.post(signed(size=rejections.DIAGNOSED - smallest))
    shop.told(1)
    shop.rest()
    shop.post(signed(size=rejections.DIAGNOSED - smallest + 1))
    shop.rest()
    assert [size for _, size in shop.diagnosed] == [rejections.DIAGNOSED]


def test_one_cause_is_told_at_most_once_a_minute_with_the_number_left_out(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rejections, "REST", 0)
    for _ in range(5):
        shop.post(signed())
        shop.rest(11)
    assert len(shop.diagnosed) == 5
    assert len(shop.lines()) == 1
    shop.rest(5)
    shop.post(signed())
    assert shop.told(2)[1][3].endswith(" 4 more were rejected for this cause.")


def test_while_the_diagnosis_rests_another_source_is_told_of_without_one(shop: Shop) -> None:
    shop.post(signed())
    shop.told(1)
    until(lambda: True if shop.app.receiver.rejections._thread is None else None)
    shop.post(signed(), "/later")
    source, code, kind, said = shop.lines()[1]
    assert (source, code, kind) == ("later", "BAD_SIGNATURE", "not_diagnosed")
    assert "not diagnosed: another rejection was just before it" in said
    assert len(shop.diagnosed) == 1


def test_a_diagnosis_that_takes_too_long_is_ended_and_says_so(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rejections, "BUDGET", -1.0)
    shop.post(rewritten(signed(SECRET)))
    [(_, _, kind, said)] = shop.told(1)
    assert kind == "unfinished"
    assert "duly.explain()" in said


def test_a_diagnosis_that_fails_is_told_by_its_type_alone(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError(SECRET)

    monkeypatch.setattr(rejections, "diagnose", fail)
    shop.post(signed())
    [(_, _, kind, said)] = shop.told(1)
    assert kind == "diagnosis_failed"
    assert said.endswith("(its diagnosis failed: ZeroDivisionError)")


def test_what_was_left_out_is_told_when_the_application_ends(shop: Shop) -> None:
    shop.post(signed())
    shop.told(1)
    for _ in range(6):
        shop.post(signed())
    shop.app.receiver.rejections.close()
    said = [record.getMessage() for record in shop.caplog.records]
    assert "6 more deliveries to shop were rejected (BAD_SIGNATURE)" in said


def test_there_are_no_more_causes_than_codes_and_kinds(shop: Shop) -> None:
    plain, unsigned = signed(SECRET), signed()
    stale = duly.sign(PROVIDER, b"{}", SECRET, id="x", now=datetime.now(UTC) - timedelta(days=2))
    odd = plain._replace(headers={**plain.headers, "webhook-timestamp": "soon\n"})
    for delivery in (unsigned._replace(headers={}), stale, odd, rewritten(plain), unsigned):
        shop.post(delivery)
        shop.rest()
    kinds = KINDS | {rejections.LARGE_BODY, rejections.NOT_DIAGNOSED, rejections.FAILED}
    assert {line[1] for line in shop.told(5)} <= set(Code)
    assert {line[2] for line in shop.lines()} <= kinds
    assert {(cause.code, cause.kind) for cause in shop.app.receiver.rejections._logged} <= {
        (code, kind) for code in Code for kind in kinds
    }


def test_nothing_is_diagnosed_where_the_log_does_not_take_warnings(shop: Shop) -> None:
    shop.caplog.set_level(logging.ERROR, "duly")
    assert shop.post(signed()).status == 403
    shop.rest()
    assert shop.diagnosed == []


@given(st.text(st.characters(codec=None) | st.sampled_from("\x1b\r\n\u202e"), max_size=900))
def test_what_a_sender_wrote_stays_on_one_line_and_moves_no_terminal(text: str) -> None:
    source = duly.Source(PROVIDER, SECRET)
    said = rejections.loggable_sentence(f"{text}{SECRET}{text}", [source])
    assert said.isprintable()
    assert SECRET not in said


def test_a_delivery_received_without_the_url_that_is_signed_is_told_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = duly.Duly("memory:")
    app.source("square", secret=SECRET)
    signed = duly.sign("square", b'{"event_id":"1"}', SECRET, url="https://shop.example/square")
    assert app.receive("square", signed.headers, signed.body).status == 403
    shop = Shop(app, None, caplog)
    [(_, code, kind, _)] = shop.told(1)
    app.close()
    assert (code, kind) == ("BAD_SIGNATURE", "missing_url")
