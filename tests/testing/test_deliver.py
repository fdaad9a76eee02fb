"""``deliver``: what is sent is what was asked for, and the answers are those of the real path."""

import json
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import pytest

import duly
from duly.testing import HandClock, Trial, isolated
from tests.testing.shops import PAID, SECRET, payments

SEEN: list[duly.Event] = []
WRONG: tuple[Literal["body", "signature"], ...] = ("body", "signature")


def see(event: duly.Event) -> None:
    SEEN.append(event)


def an_observer(folder: Path, name: str, secret: Any = SECRET, **options: Any) -> duly.Duly:
    """An application that remembers what it was sent, in this process."""
    SEEN.clear()
    app = duly.Duly(f"sqlite:///{folder / 'real.db'}")
    app.source(name, secret=secret, inline=True, **options)
    app.on(name)(see)
    return app


def test_a_duplicate_is_answered_as_one_and_changes_nothing(trial: Trial) -> None:
    answers = trial.deliver("stripe", PAID, times=3)
    assert answers.words == ["accepted", "duplicate", "duplicate"]
    assert answers.statuses == [200, 200, 200]
    assert trial.run_jobs().done == ["record"]
    assert trial.deliver("stripe", PAID).word == "duplicate"
    assert payments(trial) == ["evt_1"]


def test_copies_at_one_instant_have_one_effect(trial: Trial) -> None:
    answers = trial.deliver("now", PAID, times=20, at_once=True)
    assert answers.counts == {"accepted": 1, "duplicate": 19}
    assert payments(trial) == ["evt_1"]


async def test_copies_at_one_instant_have_one_effect_awaited(trial: Trial) -> None:
    answers = await trial.deliver.aio("now", PAID, times=20, at_once=True)
    assert answers.counts == {"accepted": 1, "duplicate": 19}
    assert payments(trial) == ["evt_1"]


def test_an_answer_has_all_that_the_sender_was_told(trial: Trial) -> None:
    answer = trial.deliver("stripe", PAID)
    assert (answer.status, answer.word) == (200, "accepted")
    assert answer.json == {"status": "accepted", "event": "evt_1"}
    assert json.loads(answer.text) == answer.json
    assert answer[0].headers["content-type"] == "application/json"
    assert repr(answer) == '<200 {"status": "accepted", "event": "evt_1"}>'


def test_several_answers_are_not_mistaken_for_one(trial: Trial) -> None:
    answers = trial.deliver("stripe", PAID, times=2)
    with pytest.raises(duly.errors.UsageError, match=r"2 answers: look at answers\[0\]"):
        answers.status  # noqa: B018  # it is the looking that is refused
    assert repr(answers) == "<1 accepted, 1 duplicate>"
    assert answers[1:].word == "duplicate"


def test_an_error_of_an_inline_handler_is_an_answer_like_any_other(
    tmp_path: Path, shop: duly.Duly
) -> None:
    with isolated(shop) as trial:  # without the table that it writes to
        assert trial.deliver("now", PAID).word == "HANDLER_FAILED"


@pytest.mark.parametrize("form", ["dictionary", "bytes", "text", "file"])
def test_a_payload_is_sent_in_any_form(form: str, tmp_path: Path) -> None:
    written = b'{"id": "evt_7",  "type": "a.b"}'
    file = tmp_path / "event.json"
    file.write_bytes(written)
    payload: Any = {
        "dictionary": json.loads(written),
        "bytes": written,
        "text": written.decode(),
        "file": file,
    }[form]
    with isolated(an_observer(tmp_path, "stripe")) as trial:
        assert trial.deliver("stripe", payload).word == "accepted"
    [event] = SEEN
    assert (event.id, event.type) == ("evt_7", "a.b")
    assert form == "dictionary" or event.body == written


def test_without_a_payload_the_sample_is_sent_as_a_fresh_event(tmp_path: Path) -> None:
    with isolated(an_observer(tmp_path, "stripe")) as trial:
        assert trial.deliver("stripe").word == trial.deliver("stripe").word == "accepted"
    first, second = SEEN
    assert first.id != second.id
    assert first.type == second.type


@pytest.mark.parametrize("name", ["stripe", "github", "shopify"])
def test_id_and_type_are_written_where_the_provider_has_them(name: str, tmp_path: Path) -> None:
    with isolated(an_observer(tmp_path, name)) as trial:
        for payload in (None, {"a": 1}):
            wanted = f"id-{len(SEEN)}"
            answer = trial.deliver(name, payload, id=wanted, type="order.paid")
            assert answer.json == {"status": "accepted", "event": wanted}
            assert trial.deliver(name, payload, id=wanted, type="order.paid").word == "duplicate"
    assert [event.type for event in SEEN] == ["order.paid", "order.paid"]


def test_a_form_and_a_list_are_what_their_senders_post(tmp_path: Path) -> None:
    with isolated(an_observer(tmp_path, "twilio", "token-of-twilio")) as trial:
        assert trial.deliver("twilio", {"MessageSid": "SM1", "MessageStatus": "sent"}).status == 200
    assert SEEN[0].form == (("MessageSid", "SM1"), ("MessageStatus", "sent"))
    with isolated(an_observer(tmp_path, "hubspot", "secret-of-hubspot")) as trial:
        now = int(trial.clock.now.timestamp() * 1000)
        contact = {"eventId": 1, "subscriptionId": 2, "occurredAt": now, "subscriptionType": "x.y"}
        bodies: list[bytes] = []

        def peeking(environ: dict[str, Any], start_response: Any) -> Any:
            bodies.append(environ["wsgi.input"].read())
            return trial.app.wsgi({**environ, "wsgi.input": BytesIO(bodies[0])}, start_response)

        assert trial.deliver("hubspot", contact, site=peeking).word == "accepted"
        assert json.loads(bodies[0]) == [contact]
    assert SEEN[0].type == "x.y"


def test_headers_of_the_tests_own_are_sent(tmp_path: Path) -> None:
    with isolated(an_observer(tmp_path, "github", headers=["X-Shop"])) as trial:
        assert trial.deliver("github", headers={"X-Shop": "7"}).word == "accepted"
    assert SEEN[0].headers["x-shop"] == "7"


@pytest.mark.parametrize(
    ("name", "payload"), [("square", None), ("twilio", None), ("twilio", b'{"id": "e1"}')]
)
def test_a_source_that_knows_its_url_is_sent_to_as_its_provider_would(
    name: str, payload: bytes | None, tmp_path: Path
) -> None:
    url = "https://shop.example/hooks"
    with isolated(an_observer(tmp_path, name, "key-of-the-shop", url=url)) as trial:
        assert trial.deliver(name, payload).word == "accepted"
        for wrong in WRONG:
            assert trial.deliver(name, payload, wrong=wrong).word == "BAD_SIGNATURE"


def test_it_is_signed_with_the_first_secret_that_is_still_good(tmp_path: Path) -> None:
    clock = HandClock(datetime(2026, 1, 2, tzinfo=UTC))
    ended = duly.Secret("whsec_b2xk", name="old", not_after=datetime(2026, 1, 1, tzinfo=UTC))
    with isolated(an_observer(tmp_path, "stripe", [ended, SECRET]), clock=clock) as trial:
        assert trial.deliver("stripe").word == "accepted"


def test_any_other_secret_can_be_tried(tmp_path: Path) -> None:
    old, new = "whsec_b2xk", "whsec_bmV3"
    with isolated(an_observer(tmp_path, "stripe", {"new": new, "old": old})) as trial:
        assert trial.deliver("stripe", secret=old).word == "accepted"
        assert trial.deliver("stripe", secret="whsec_c3RyYW5nZXI=").word == "BAD_SIGNATURE"


def test_a_delivery_that_is_signed_now_is_good_at_any_time_of_the_clock(trial: Trial) -> None:
    for _ in range(3):
        trial.clock.advance(days=100)
        assert trial.deliver("now").word == "accepted"


def test_a_question_of_the_provider_is_answered(tmp_path: Path) -> None:
    with isolated(an_observer(tmp_path, "slack", "secret-of-slack")) as trial:
        asked = {"type": "url_verification", "challenge": "abc"}
        assert trial.deliver("slack", asked).json == {"challenge": "abc"}
    assert SEEN == []


@pytest.mark.parametrize(
    ("told", "options"),
    [
        ("there is no source 'strip'", {"source": "strip"}),
        ("wrong must be one of", {"wrong": "everything"}),
        ("times must be", {"times": 0}),
        ("at_once must be True or False", {"at_once": "yes"}),
        ("id and type must not be empty", {"id": ""}),
        ("the pathlib.Path of a file, not", {"payload": 7}),
        ("path must begin with a slash", {"path": "stripe"}),
        ("age must be a timedelta", {"age": 5}),
        ("leave out age=", {"age": timedelta(1), "wrong": "time"}),
        ("site must be an ASGI or WSGI application", {"site": "shop"}),
        ("leave id= and type= out", {"payload": b"no JSON", "id": "evt_1"}),
    ],
)
def test_a_mistake_is_told_in_the_words_of_the_call(
    told: str, options: dict[str, Any], trial: Trial
) -> None:
    with pytest.raises(duly.errors.UsageError, match=told.replace("(", r"\(")):
        trial.deliver(**{"source": "stripe", **options})


async def test_an_awaited_site_names_the_awaited_twin(trial: Trial) -> None:
    with pytest.raises(duly.errors.UsageError, match=r"await deliver\.aio"):
        trial.deliver("stripe", site=trial.app)
