"""``duly outbox`` says what is to be sent and what was given up, and lets it be sent again."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import termios
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.cli import outbox
from duly.cli.main import main
from duly.core.failures import reason_record
from duly.core.host import HOST
from duly.ledger import replay
from tests.support.inboxes import found
from tests.support.processes.forked import run_forked
from tests.support.serving import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

NOT_THERE = "0198c3a2-5d1e-7b4f-9c60-8a2f41d7e305"
# Addresses are private as bodies are: the address of a chat room lets its reader write there.
CANARY = "canary-of-the-address"
APP = """
import os
import duly

app = duly.Duly(os.environ["SHOP_URL"])
"""
RED = "\x1b[31m"
Output = pytest.CaptureFixture[str]
Run = Any


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the settings of the environment."""
    for name in ("DULY_APP", "DULY_URL", "DULY_PREFIX", "DULY_SCHEMA"):
        monkeypatch.delenv(name, raising=False)


def mail(message: duly.types.Message) -> None:
    raise OSError(f"the line\n{RED}was cut")


def sms(message: duly.types.Message) -> duly.Dead:
    return duly.Dead("no such number")


def paper(message: duly.types.Message) -> None:
    """Always arrives."""


@pytest.fixture(params=["postgres", "sqlite"])
def app(request: pytest.FixtureRequest) -> Iterator[duly.Duly]:
    """An application with three dead messages, in a database of its own."""
    kind = "own_postgres_url" if request.param == "postgres" else "sqlite_url"
    made = duly.Duly(request.getfixturevalue(kind))
    made.transport("mail", attempts=1)(mail)
    made.transport("sms")(sms)
    made.send(f"mail:{CANARY}", json={"red": f"{RED}é"}, headers={"X-Order": "7"}, key="order 7")
    made.send(f"sms:{CANARY}", data=b"\xff")
    made.send(f"sms:{CANARY}")
    assert made.relay().dead == 3
    yield made
    made.close()


# One database is as good as another for what does not reach it in a way of its own.
on_sqlite = pytest.mark.parametrize("app", ["sqlite"], indirect=True)


@pytest.fixture
def ids(app: duly.Duly) -> dict[str, list[str]]:
    """The dead messages by transport, the latest first."""
    return {name: [one.id for one in app.outbox.dead(destination=name)] for name in ("mail", "sms")}


@pytest.fixture
def run(app: duly.Duly, capsys: Output) -> Callable[..., str]:
    """Run the command on the application's database, and return what it says."""

    def running(*words: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main(["outbox", *words, app.store.url]) == code
        output = capsys.readouterr()
        assert "\x1b" not in output.out
        return output.err if code else output.out

    return running


def dead_with(app: duly.Duly, body: bytes) -> str:
    """Another dead message."""
    staged = app.send(f"sms:{CANARY}", data=body)
    app.relay()
    return staged.id


def change(app: duly.Duly, message: str, error: bytes) -> None:
    """Write down another reason."""
    with app.transaction() as tx:
        tx.execute(
            "UPDATE duly_outbox SET last_error = :error WHERE id = :id", error=error, id=message
        )


def on_a_terminal(columns: int, *words: str) -> list[str]:
    """What a command shows on a terminal of this width."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    # The environment may say how wide the terminal of the test run is.
    told = {name: value for name, value in clean().items() if name not in ("COLUMNS", "LINES")}
    with subprocess.Popen(
        [sys.executable, "-m", "duly", *words], env=told, stdout=theirs
    ) as program:
        os.close(theirs)
        shown = b"".join(iter(lambda: read_from(ours), b""))
    os.close(ours)
    assert program.returncode == 0
    return shown.decode().splitlines()


def read_from(terminal: int) -> bytes:
    """Read what comes next; nothing once the program has closed its end."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def states(app: duly.Duly) -> dict[str, str]:
    rows = found(app.store, "SELECT id, state FROM duly_outbox")
    return {str(message): state for message, state in rows}


def test_each_destination_is_counted(run: Run, app: duly.Duly) -> None:
    app.send("mail:ann@example.com")
    app.send("mail:ann@example.com", delay=timedelta(hours=1))
    heading, *lines = run().splitlines()
    assert heading.split() == ["DESTINATION", "READY", "OLDEST", "WAITING", "LEASED", "DEAD"]
    first, second = sorted(lines)
    assert re.fullmatch(r"mail +1 +\d+s +1 +0 +1", first)
    assert re.fullmatch(r"sms +0 +- +0 +0 +2", second)
    told = {one.pop("destination"): one for one in json.loads(run("--json"))["destinations"]}
    assert told["mail"].pop("oldest") >= 0
    assert told["mail"] == {"ready": 1, "waiting": 1, "leased": 0, "dead": 1}
    assert told["sms"] == {"ready": 0, "oldest": None, "waiting": 0, "leased": 0, "dead": 2}


def test_the_list_of_the_dead_has_a_line_for_each_and_nothing_private(
    run: Run, app: duly.Duly, ids: dict[str, list[str]]
) -> None:
    text = run("dead")
    assert CANARY not in text
    heading, *lines = text.splitlines()
    assert heading.split() == ["ID", "DIED", "ATTEMPTS", "DESTINATION", "WHY"]
    assert {line.split()[0] for line in lines} == {*ids["mail"], *ids["sms"]}
    [cut] = [line for line in lines if " mail " in line]
    assert re.search(r"Z  1 of 1 +mail +OSError: the line \N{REPLACEMENT CHARACTER}\[31mwas", cut)
    assert run("dead", "--destination", "sms").count("no such number") == 2
    assert run("dead", "--limit", "1").endswith("there may be more, ask with --limit\n")
    assert run("dead", "--until", "1d") == "no dead messages\n"
    answer = run("dead", "--json", "--destination", "mail", "--since", "1h")
    assert CANARY not in answer
    [told] = json.loads(answer)
    [letter] = app.outbox.dead(ids["mail"][0])
    assert (told["id"], told["dead_at"]) == (letter.id, letter.dead_at.isoformat())
    assert (told["attempts"], told["max_attempts"], told["rescues"]) == (1, 1, 0)
    assert told["failure"]["type"] == "OSError"
    assert "traceback" not in told["failure"]


@on_sqlite
def test_one_is_shown_with_its_headers_its_body_and_its_error(
    run: Run, app: duly.Duly, ids: dict[str, list[str]]
) -> None:
    [message] = ids["mail"]
    [letter] = app.outbox.dead(message)
    text = run("show", message.upper())
    for line in (
        f"message   {message}",
        f"state     dead since {letter.dead_at:%Y-%m-%d %H:%M:%SZ}",
        "signer    none",
        f"to        POST mail:{CANARY}",
        "attempts  1 of 1, 0 rescues",
        "header    X-Order: 7",
        f"body      {len(letter.body or b'')} bytes",
    ):
        assert f"{line}\n" in text
    assert "Traceback (most recent call last):" in text
    told = json.loads(run("show", message, "--json"))
    assert json.loads(told["body"]) == {"red": f"{RED}é"}
    assert told["headers"] == {"Content-Type": "application/json", "X-Order": "7"}
    assert (told["method"], told["url"], told["base64"]) == ("POST", f"mail:{CANARY}", None)
    assert "in mail\n" in told["traceback"]
    assert (told["state"], told["leased_until"]) == ("dead", None)


def test_any_message_is_shown_with_what_it_waits_for(
    run: Run, app: duly.Duly, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HOST.random, "random", lambda: 0.9)  # or it may be due again at once
    message = app.send(f"mail:{CANARY}", attempts=3).id
    assert "\nstate     ready to be sent since 20" in run("show", message)
    assert app.relay().retried == 1
    found = app.outbox.find(message)
    assert found is not None
    text = run("show", message)
    assert f"\nstate     waiting, sent not before {found.run_at:%Y-%m-%d %H:%M:%SZ}\n" in text
    assert "\nattempts  1 of 3, 0 rescues\nerror     OSError: the line" in text
    told = json.loads(run("show", message, "--json"))
    assert (told["state"], told["run_at"]) == ("waiting", found.run_at.isoformat())
    assert (told["dead_at"], told["failure"]["attempt"]) == (None, 1)


def test_of_one_that_has_left_the_history_is_told(
    run: Run, app: duly.Duly, ids: dict[str, list[str]]
) -> None:
    app.transport("paper")(paper)
    sent = app.send(f"paper:{CANARY}").id
    assert app.relay().sent == 1
    [discarded] = ids["mail"]
    assert app.outbox.discard(discarded)
    told = run("show", sent)
    assert re.fullmatch(rf"message {sent} to paper was sent at 20[\d: -]+Z, in attempt 1\n", told)
    assert f"message {discarded} to mail was discarded at 20" in run("show", discarded)
    answer = json.loads(run("show", sent, "--json"))
    assert (answer["id"], answer["state"], answer["destination"]) == (sent, "sent", "paper")
    assert f"no message {NOT_THERE} is known here" in run("show", NOT_THERE, code=2)


@on_sqlite
def test_a_reason_has_no_internal_type_and_shows_where_it_is_cut(
    run: Run, app: duly.Duly, ids: dict[str, list[str]]
) -> None:
    long = f"the receiver answered 302 {'x' * 200}"
    for message, kind, told in (
        (ids["mail"][0], "duly.Answered", long),
        (ids["sms"][0], "duly.TimedOut", "there was no answer"),
    ):
        change(app, message, reason_record(told, 1, kind))
    assert f"\nerror     {long}\n" in run("show", ids["mail"][0])
    text = run("dead")
    assert re.search(r"mail         the receiver answered 302 x+ … x+\n", text)
    assert "sms          there was no answer\n" in text
    assert "sms          duly.Dead: no such number\n" in text


@on_sqlite
def test_a_narrow_terminal_has_the_reason_on_a_line_of_its_own(
    app: duly.Duly, ids: dict[str, list[str]]
) -> None:
    change(app, ids["mail"][0], reason_record(f"{'word ' * 20}end", 1, "OSError"))
    lines = on_a_terminal(80, "outbox", "dead", app.store.url)
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["ID", "DIED", "ATTEMPTS"]
    assert lines[1] == "    DESTINATION  WHY"
    at = next(place for place, line in enumerate(lines) if line.startswith(ids["mail"][0]))
    assert lines[at + 1].startswith("    mail  OSError: word word ")
    assert lines[at + 2].startswith("    word ")
    wide = on_a_terminal(250, "outbox", "dead", app.store.url)
    assert [line.split()[0] for line in wide[1:]] == [one.id for one in app.outbox.dead()]


@on_sqlite
def test_a_destination_is_cut_out_of_an_address(run: Run, app: duly.Duly) -> None:
    assert run("dead", "--destination", f"sms:{CANARY}").count("no such number") == 2
    assert run("dead", "--destination", "https://example.com/a?b") == "no dead messages\n"
    told = run("replay", "--destination", "https://ann:word@example.com", "--dry-run", code=2)
    assert "has a user or a password in it" in told


@pytest.mark.parametrize("command", ["jobs", "outbox", "relay"])
def test_help_fits_a_terminal_and_says_what_belongs_to_which_action(
    capsys: Output, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    filters = {"jobs": ["--source", "--type", "--name"], "outbox": ["--destination"]}
    if command in filters:
        _, both, dead, replayed = text.partition("examples:")[0].split("\noptions of ")
        assert re.findall(r"  (--\S+)", both) == [*filters[command], "--since", "--until"]
        assert re.findall(r"  (--\S+)", dead) == ["--limit"]
        assert re.findall(r"  (--\S+)", replayed) == ["--all", "--dry-run", "--rate"]


@on_sqlite
def test_a_body_is_shown_as_far_as_it_is_text_and_as_a_person_reads(
    run: Run, app: duly.Duly, ids: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = {one.id: one.body for one in app.outbox.dead()}
    empty, bytes_only = sorted(ids["sms"], key=lambda one: bodies[one] or b"")
    zeros = dead_with(app, b"\0\0")
    for message, body in {bytes_only: b"\xff", zeros: b"\0\0"}.items():
        shown = f"body      {len(body)} bytes that are no text: --json has them\n"
        assert shown in run("show", message)
        told = json.loads(run("show", message, "--json"))
        assert (told["body"], base64.b64decode(told["base64"])) == (None, body)
    assert "body      -" in run("show", empty)
    told = json.loads(run("show", empty, "--json"))
    assert (told["body"], told["base64"]) == (None, None)
    long = dead_with(app, f"{RED}one\nand {CANARY} two".encode())
    assert "\n\n\N{REPLACEMENT CHARACTER}[31mone\nand " in run("show", long)
    monkeypatch.setattr(outbox, "LONGEST_BODY", 8)
    shown = run("show", long)
    assert shown.endswith("[31mone\n… and 30 characters more: --json has them all\n")
    assert CANARY not in shown.partition("\n\n")[2]


@on_sqlite
def test_one_is_discarded_for_good(run: Run, app: duly.Duly, ids: dict[str, list[str]]) -> None:
    [message] = ids["mail"]
    assert run("discard", message) == f"discarded {message}\n"
    assert message not in states(app)
    assert "it was replayed, discarded or never given up" in run("discard", message, code=2)
    other = ids["sms"][0]
    assert json.loads(run("discard", other, "--json")) == {"discarded": other}


def test_one_is_replayed_once(run: Run, app: duly.Duly, ids: dict[str, list[str]]) -> None:
    [message] = ids["mail"]
    [before] = app.outbox.dead(message)
    assert run("replay", message) == "replayed 1 message\n"
    assert states(app)[message] == "ready"
    assert f"there is no dead message {message}" in run("replay", message, code=2)
    assert list(states(app).values()).count("dead") == 2
    assert app.relay().dead == 1
    [after] = app.outbox.dead(message)
    assert (after.id, after.body) == (before.id, before.body)


def test_many_are_replayed_by_a_filter_and_a_dry_run_names_them(
    run: Run, app: duly.Duly, ids: dict[str, list[str]]
) -> None:
    chosen = sorted(ids["sms"])
    first, *lines = run("replay", "--destination", "sms", "--dry-run").splitlines()
    assert (first, sorted(lines)) == ("would replay 2 messages", chosen)
    assert set(states(app).values()) == {"dead"}
    told = json.loads(
        run("replay", "--destination", "sms", "--since", "1h", "--rate", "0.01", "--json")
    )
    assert (sorted(told["ids"]), told["dry_run"]) == (chosen, False)
    stats = app.outbox.stats().destinations["sms"]
    assert (stats.ready, stats.waiting, stats.dead) == (1, 1, 0)
    assert run("replay", "--all") == "replayed 1 message\n"
    assert run("replay", "--all") == "replayed 0 messages\n"


@on_sqlite
def test_a_long_replay_tells_how_far_it_is(
    app: duly.Duly, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "CHUNK", 2)
    assert main(["outbox", "replay", app.store.url, "--all"]) == 0
    output = capsys.readouterr()
    assert output.out == "replayed 3 messages\n"
    assert output.err == "replayed 2 messages so far\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("replay",), "which dead messages? Give the id of one, or --destination, --since"),
        (("replay", NOT_THERE, "--since", "1h"), "give the id of one message, or --since, and not"),
        (("replay", "--all", "--until", "1h"), "--all means every dead message"),
        (("replay", "--all", "--rate", "0"), "rate must be a number per second"),
        (("replay", "--since", "later"), "--since must be how long ago, like 45m, 2h or 3d"),
        (("replay", "--all", "--limit", "9"), "`duly outbox replay` takes no --limit"),
        (("dead", "--limit", "0"), "limit must be a whole number from 1"),
        (
            ("dead", "--dry-run"),
            "`duly outbox dead` takes no --dry-run; `duly outbox replay`",
        ),
        (("--since", "1h"), "`duly outbox` takes no --since; `duly outbox dead` or `duly outbox r"),
        (("--rate", "0"), "`duly outbox` takes no --rate; `duly outbox replay` takes it"),
        (("show", NOT_THERE, "--limit", "0"), "`duly outbox show` takes no --limit"),
        (("show",), "which message? Give its id, as in `duly outbox show shop:app ID`"),
        (("discard",), "which message? Give its id, as in `duly outbox discard shop:app ID`"),
        ((NOT_THERE,), "show it, replay it, or discard it?"),
        (("dead", NOT_THERE), "show it, replay it, or discard it?"),
        (("dead", "show"), "dead or show? One at a time"),
        (("deaad",), "there is no `duly outbox deaad`: write dead, show, replay, discard or stats"),
        (("list",), "there is no `duly outbox list`: write dead"),
        (("./shop.py",), "there is no such action: write dead"),
        (("show", NOT_THERE[:8]), "the id of a message must look like 0198c3a2-"),
        (("show", f"{NOT_THERE}x"), "the id of a message must look like 0198c3a2-"),
        (("shop:app",), "give one application or address, and one id of a message"),
        ((), "duly's tables"),
    ],
)
def test_what_cannot_work_is_told_in_one_line_and_makes_no_database(
    sqlite_url: str, tmp_path: Path, capsys: Output, words: tuple[str, ...], told: str
) -> None:
    assert main(["outbox", sqlite_url, *words]) in (1, 2)
    error = capsys.readouterr().err
    assert error.startswith(f"duly: {told}")
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_whose_messages_must_be_said(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["outbox"]) == 2
    assert "whose messages? Name the application" in capsys.readouterr().err
    monkeypatch.setenv("DULY_URL", "memory:")
    assert main(["outbox", "dead"]) == 2
    assert "a memory: store ends with its process" in capsys.readouterr().err


def test_an_application_is_named_as_well_as_its_database(tmp_path: Path, sqlite_url: str) -> None:
    (tmp_path / "shop.py").write_text(APP)
    duly.store(sqlite_url).open().close()

    def command(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return run_forked(
            [sys.executable, "-W", "error", "-m", "duly", "outbox", *words],
            cwd=tmp_path,
            env={**clean(), "SHOP_URL": sqlite_url, **more},
        )

    named = command("shop:app")
    assert (named.returncode, named.stdout, named.stderr) == (0, "no messages\n", "")
    told = command("replay", "--all", "--json", DULY_APP="shop:app")
    assert json.loads(told.stdout) == {"ids": [], "dry_run": False}
