"""``duly deliver`` sends what the provider would, and says whether the reply was to be expected."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.cli.main import main
from tests.support.receivers import Inbox, Receiver, Seen, receiving, told
from tests.webhooks.genuine import PROVIDERS, keys

if TYPE_CHECKING:
    from pathlib import Path

Output = pytest.CaptureFixture[str]
DULY = [sys.executable, "-m", "duly"]
# Those of which a signature, or the signed body, says when it was made.
TIMED = [
    "discord", "gitlab", "hubspot", "linear", "paddle", "sendgrid", "slack", "standard-webhooks",
    "stripe", "svix", "zoom",
]  # fmt: skip


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the settings of the environment."""
    for name in [name for name in os.environ if name.endswith(("_SECRET", "_PRIVATE_KEY"))]:
        monkeypatch.delenv(name)


def inbox(provider: str) -> Inbox:
    return Inbox(duly.Source(provider, keys(provider).receiver))


def send(provider: str, receiver: Receiver | str, *options: str) -> int:
    url = receiver if isinstance(receiver, str) else receiver.url
    return main(["deliver", provider, url, "--secret", keys(provider).sender, *options])


def ok(_: Seen) -> tuple[int, bytes]:
    return told(200, status="accepted")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_delivery_of_every_provider_is_genuine_fresh_and_of_a_known_type(
    provider: str, capsys: Output
) -> None:
    answer = inbox(provider)
    with receiving(answer) as receiver:
        assert send(provider, receiver) == 0
        assert send(provider, receiver) == 0
    first, second = answer.events
    assert first.id != second.id
    assert first.replay_key is None or first.replay_key != second.replay_key
    assert first.type is not None
    for event, line in zip(answer.events, capsys.readouterr().out.splitlines(), strict=True):
        assert line.startswith(f"200 accepted  {event.id}  ")
        assert line.endswith(" ms")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_changed_byte_is_refused_for_its_signature_and_was_to_be(
    provider: str, capsys: Output
) -> None:
    answer = inbox(provider)
    with receiving(answer) as receiver:
        assert send(provider, receiver, "--tamper") == 0
    assert answer.events == []
    assert " BAD_SIGNATURE  " in capsys.readouterr().out


@pytest.mark.parametrize("provider", TIMED)
def test_a_stale_delivery_is_refused_for_its_age(provider: str, capsys: Output) -> None:
    answer = inbox(provider)
    with receiving(answer) as receiver:
        assert send(provider, receiver, "--stale") == 0
    assert " STALE_TIMESTAMP  " in capsys.readouterr().out


@pytest.mark.parametrize("provider", sorted(set(PROVIDERS) - set(TIMED)))
def test_where_no_time_is_signed_stale_is_refused_with_the_reason(
    provider: str, capsys: Output
) -> None:
    with receiving(ok) as receiver:
        assert send(provider, receiver, "--stale") == 2
    assert receiver.seen == []
    assert "signs no time this way" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--tamper", "--stale"])
@pytest.mark.parametrize(
    ("status", "members", "code"),
    [
        (200, {"status": "accepted"}, 1),
        (404, {"error": "UNKNOWN_SOURCE"}, 1),
        (503, {"error": "OVERLOADED"}, 1),
        (403, {"error": "MISSING_SIGNATURE"}, 1),
        (400, {"detail": "no"}, 0),
        (401, {}, 0),
    ],
)
def test_only_a_refusal_of_the_signature_is_expected_for_what_is_not_genuine(
    option: str, status: int, members: dict[str, str], code: int, capsys: Output
) -> None:
    with receiving(lambda _: told(status, **members)) as receiver:
        assert send("stripe", receiver, option) == code
    assert bool(capsys.readouterr().err) == bool(code)


def test_a_stale_delivery_refused_for_another_reason_says_nothing_of_its_age() -> None:
    with receiving(lambda _: told(403, error="BAD_SIGNATURE")) as receiver:
        assert send("stripe", receiver, "--stale") == 1
        assert send("stripe", receiver, "--tamper") == 0


@pytest.mark.parametrize("status", [302, 400, 403, 404, 500, 503])
def test_a_genuine_delivery_that_is_not_taken_fails(status: int, capsys: Output) -> None:
    with receiving(lambda _: told(status, error="SOME_CODE", reason="for a reason")) as receiver:
        assert send("stripe", receiver) == 1
    output = capsys.readouterr()
    assert output.out.startswith(f"{status} SOME_CODE  evt_")
    assert output.out.endswith(" ms  for a reason\n")
    assert output.err == "duly: a genuine delivery was not taken\n"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'{"status": 7}', b"[" * 50_000])
def test_a_reply_without_a_word_of_duly_is_told_by_its_status(body: bytes, capsys: Output) -> None:
    with receiving(lambda _: (204 if not body else 202, body)) as receiver:
        assert send("stripe", receiver) == 0
    assert capsys.readouterr().out.startswith("202 Accepted  " if body else "204 No Content  ")


def test_a_reply_cannot_move_the_cursor_or_fill_the_screen(capsys: Output) -> None:
    with receiving(lambda _: told(200, status="\x1b[2Jgone\n\r" + "x" * 9999)) as receiver:
        assert send("stripe", receiver) == 0
    line = capsys.readouterr().out
    assert "\x1b" not in line
    assert line.count("\n") == 1
    assert len(line) < 300


def test_programs_get_one_document(capsys: Output) -> None:
    answer = inbox("stripe")
    with receiving(answer) as receiver:
        assert send("stripe", receiver, "--duplicate", "2", "--json", "--id", "evt_7") == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    deliveries = document.pop("deliveries")
    assert document == {
        "provider": "stripe",
        "url": receiver.url,
        "event": "evt_7",
        "sent": "genuine",
        "counts": {"accepted": 1, "duplicate": 1},
        "expected": True,
    }
    assert [(one["status"], one["reply"]) for one in deliveries] == [
        (200, "accepted"),
        (200, "duplicate"),
    ]


def test_headers_and_the_query_of_the_url_travel_along() -> None:
    with receiving(ok, path="/hook?shop=7&x=%20") as receiver:
        assert send("github", receiver, "--header", "X-Shop: 7", "--header", "x-a:b: c") == 0
    [request] = receiver.seen
    assert request.path == "/hook?shop=7&x=%20"
    assert (request.header("X-Shop"), request.header("X-A")) == ("7", "b: c")
    assert (request.header("User-Agent") or "").startswith("duly/")


def test_the_list_names_every_provider_and_the_form_of_its_secret(capsys: Output) -> None:
    assert main(["deliver", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(PROVIDERS)
    assert main(["deliver", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {one["name"]: one["variable"] for one in listed}["standard-webhooks"] == (
        "STANDARD_WEBHOOKS_SECRET"
    )


def test_a_file_or_standard_input_is_sent_as_it_stands(tmp_path: Path) -> None:
    body = b'{ "id" : "evt_file", "type": "a.b" }\n'
    path = tmp_path / "event.json"
    path.write_bytes(body)
    with receiving(inbox("stripe")) as receiver:
        assert send("stripe", receiver, "--body", str(path)) == 0
        command = [*DULY, "deliver", "stripe", receiver.url, "--body", "-"]
        ran = subprocess.run(
            command,
            input=body,
            capture_output=True,
            check=True,
            env={**os.environ, "STRIPE_WEBHOOK_SECRET": keys("stripe").sender},
        )
    assert [request.body for request in receiver.seen] == [body, body]
    assert ran.stdout.startswith(b"200 duplicate  evt_file  ")


OLD = b'{ "id":"evt_old", "type":"a.b",\n  "data":{"created":5}, "created": 1600000000 }\n'


def test_a_recorded_event_is_sent_with_a_fresh_time_and_says_so(
    tmp_path: Path, capsys: Output
) -> None:
    path = tmp_path / "recorded.json"
    path.write_bytes(OLD)
    with receiving(inbox("stripe")) as receiver:
        assert send("stripe", receiver, "--body", str(path)) == 0
        moved = capsys.readouterr().err
        assert send("stripe", receiver, "--body", str(path), "--keep-time") == 0
    fresh, kept = (request.body for request in receiver.seen)
    assert kept == OLD
    hour = json.loads(fresh)["created"]
    assert hour % 3600 == 0
    assert fresh == OLD.replace(b"1600000000", str(hour).encode())
    assert moved.startswith("duly: the event's own time was moved from 2020-09-13T12:26:40Z to ")
    assert capsys.readouterr().err == ""


def test_an_event_that_was_too_old_is_a_failure_with_its_reason(
    tmp_path: Path, capsys: Output
) -> None:
    path = tmp_path / "recorded.json"
    path.write_bytes(OLD)
    app = duly.Duly("memory:")
    app.source("stripe", secret=keys("stripe").receiver)
    app.on("stripe")(handle)

    def answer(seen: Seen) -> tuple[int, bytes]:
        reply = app.receive("stripe", seen.headers, seen.body)
        return reply.status, reply.body

    with receiving(answer) as receiver:
        assert send("stripe", receiver, "--body", str(path), "--keep-time") == 1
        parked = capsys.readouterr()
        assert send("stripe", receiver, "--body", str(path), "--id", "evt_new") == 0
    app.close()
    assert parked.out.startswith("200 too_old  evt_old  ")
    assert "its event time is 2020-09-13T12:26:40Z, and the ledger remembers 30 days" in parked.out
    assert parked.out.endswith("`duly forget` the event and have it sent again\n")
    assert parked.err.startswith("duly: the event was not processed: it is older than")
    assert "200 accepted  evt_new" in capsys.readouterr().out


def test_an_old_event_among_several_is_a_failure_as_well(capsys: Output) -> None:
    reply = json.dumps({"status": "accepted", "events": 2, "accepted": 1, "too_old": 1}).encode()
    with receiving(lambda _: (200, reply)) as receiver:
        assert send("stripe", receiver) == 1
    assert "it is older than the receiver's memory" in capsys.readouterr().err


def handle(event: duly.Event) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("provider", "body", "line", "note"),
    [
        ("github", b'{"action":"opened"}', "200 accepted  msg_", "use --type"),
        ("hubspot", b'[{"eventId":1},{"eventId":2}]', " and 1 more  ", "use --type"),
        ("stripe", b'{"id":"evt\\u001b[2J","type":"a"}', "200 accepted  evt [2J  ", ""),
    ],
)
def test_a_file_of_any_kind_is_told_in_one_sound_line(
    provider: str, body: bytes, line: str, note: str, tmp_path: Path, capsys: Output
) -> None:
    path = tmp_path / "event.json"
    path.write_bytes(body)
    with receiving(inbox(provider)) as receiver:
        assert send(provider, receiver, "--body", str(path)) == 0
    output = capsys.readouterr()
    assert line in output.out
    assert output.out.count("\n") == 1
    assert note in output.err
    assert bool(note) == bool(output.err)


def test_a_secret_is_asked_for_unseen_on_a_terminal() -> None:
    answer = inbox("stripe")
    ours, theirs = pty.openpty()
    with receiving(answer) as receiver:
        command = [*DULY, "deliver", "stripe", receiver.url]
        with subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        ) as program:
            os.close(theirs)
            shown = b""
            while b"): " not in shown:
                shown += os.read(ours, 1000)
            assert b"Stripe" in shown
            os.write(ours, keys("stripe").sender.encode() + b"\n")
            while b" ms" not in shown:
                shown += os.read(ours, 1000)
            assert program.wait() == 0
    os.close(ours)
    assert keys("stripe").sender.encode() not in shown
    assert len(answer.events) == 1
