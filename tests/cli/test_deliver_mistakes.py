"""A mistake with ``duly deliver`` is one clear line and an exit code, and never shows a secret."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from duly.cli.main import main
from duly.testing.sender.signers import variable_of
from duly.webhooks import provider_named
from tests.support.processes.forked import run_forked
from tests.support.receivers import receiving, told
from tests.support.sizes import mostly_wide
from tests.webhooks.genuine import PROVIDERS, keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

Output = pytest.CaptureFixture[str]
SECRET = "whsec_a-secret-that-nobody-sees"
NOBODY = "http://127.0.0.1:1/hook"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the settings of the environment."""
    for name in [name for name in os.environ if name.endswith(("_SECRET", "_PRIVATE_KEY"))]:
        monkeypatch.delenv(name)


@contextmanager
def listening(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that answers anything to every connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                talk(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/hook"
        thread.join()


def send(url: str, *options: str) -> int:
    return main(["deliver", "stripe", url, "--secret", SECRET, *options])


def until_closed(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


def trickle(connection: socket.socket) -> None:
    """A reply that never ends, though something comes now and then."""
    connection.recv(65536)
    try:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n")
        for _ in range(500):
            connection.sendall(b"x")
            threading.Event().wait(0.01)
    except OSError:
        return  # the sender gave up, as it should
    pytest.fail("the sender read it to its end")


def refuse_early(connection: socket.socket) -> None:
    """Answer a large body before it was read, and hang up."""
    connection.recv(1000)
    connection.sendall(b'HTTP/1.1 413 X\r\nContent-Length: 21\r\n\r\n{"error":"TOO_LARGE"}')
    # Closed with most of the body unread, so that the sender's next write fails.


def reset(connection: socket.socket) -> None:
    connection.recv(65536)


def babble(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"220 mail.example ESMTP\r\n")


@pytest.mark.parametrize(
    ("talk", "told"),
    [
        (until_closed, "nothing came within 0.3 s (--timeout)"),
        (trickle, "nothing came within 0.3 s (--timeout)"),
        (reset, "the connection was closed without a reply"),
        (babble, "what came back is not HTTP"),
    ],
)
def test_a_receiver_that_does_not_reply_is_told_by_what_it_did(
    talk: Callable[[socket.socket], None], told: str, capsys: Output
) -> None:
    with listening(talk) as url:
        assert send(url, "--timeout", "0.3") == 1
    output = capsys.readouterr()
    assert output.out.startswith("--- no answer  evt_")
    assert output.out.endswith(f" ms  {told}\n")
    assert output.err == "duly: there was no answer\n"


def test_a_reply_that_comes_before_the_body_was_taken_is_still_read(
    tmp_path: Path, capsys: Output
) -> None:
    large = tmp_path / "large.json"
    large.write_bytes(b'{"id":"evt_large","data":"' + b"x" * 20_000_000 + b'"}')
    with listening(refuse_early) as url:
        assert send(url, "--body", str(large)) == 1
    assert capsys.readouterr().out.startswith("413 TOO_LARGE  evt_large  ")


@pytest.mark.parametrize(
    ("status", "members", "hint"),
    [
        (403, {"error": "BAD_SIGNATURE"}, "was it signed with the secret that the source has?"),
        (404, {"error": "UNKNOWN_SOURCE"}, "no source has this path; duly serve prints those"),
        (404, {"detail": "Not Found"}, "does duly serve this path, or another program?"),
    ],
)
@pytest.mark.parametrize("options", [[], ["--concurrent", "3"]])
def test_a_genuine_delivery_that_is_refused_comes_with_the_likely_mistake(
    status: int, members: dict[str, str], hint: str, options: list[str], capsys: Output
) -> None:
    with receiving(lambda _: told(status, **members)) as receiver:
        assert send(receiver.url, *options) == 1
    assert f"duly: a genuine delivery was not taken: {hint}" in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["--duplicate", "3"], ["--concurrent", "3"]])
@pytest.mark.parametrize(
    ("url", "told"),
    [
        (NOBODY, "nothing listens there; start the receiver: duly serve app:app"),
        ("http://nowhere.invalid/hook", "the name of the host is not known"),
    ],
)
def test_a_receiver_that_is_not_there_is_told_for_every_copy(
    url: str, told: str, options: list[str], capsys: Output
) -> None:
    assert send(url, *options) == 1
    output = capsys.readouterr()
    count = int(options[-1]) if options else 1
    assert output.out.count(told) == count
    assert ("3 copies: 3 no answer" in output.out) == (count == 3)
    assert (output.err == "duly: 3 copies got no answer\n") == (count == 3)


@pytest.mark.parametrize("command", [["deliver"], ["init", "--provider"]])
@pytest.mark.parametrize("provider", ["discord", "sendgrid"])
def test_without_the_library_that_signs_it_says_what_to_install(
    provider: str, command: list[str], tmp_path: Path
) -> None:
    program = (
        "import sys; sys.modules['cryptography'] = None; from duly.cli.main import main; "
        "sys.exit(main(sys.argv[1:]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, *command, provider],
        cwd=tmp_path,
        env={**os.environ, variable_of(provider_named(provider)): keys(provider).sender},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    assert ran.stderr == (
        "duly: cryptography must be installed for this: "
        "pip install '.[crypto]' in a checkout of duly\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_https_is_not_spoken_to_a_server_of_http(capsys: Output) -> None:
    with receiving(lambda _: told(200)) as receiver:
        assert send(receiver.url.replace("http:", "https:")) == 1
    assert "no secure connection" in capsys.readouterr().out


@pytest.mark.parametrize(
    "url",
    [
        SECRET, "stripe", "127.0.0.1:8000/stripe", "ftp://host/x", "http://", "http://[::1/x",
        "http://host:port/x", "http://host:99999/x", "http://host/a b", "http://host/\r\nX: y",
        f"http://ann:{SECRET}@host/x", "http://h\u00f6st/x", "http://host:0/",
    ],
)  # fmt: skip
def test_a_bad_url_is_a_mistake_of_the_caller(url: str, capsys: Output) -> None:
    assert send(url) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("duly: URL must be like http://127.0.0.1:8000/stripe: ")
    assert output.err.count("\n") == 1
    assert SECRET not in output.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["strpe"], "did you mean 'stripe'?"),
        ([SECRET], "there is no provider of this name"),
        ([], "duly deliver --list"),
        (["stripe", "--header", SECRET], "--header must be like"),
        (["stripe", "--header", f"X: {SECRET}\nY: z"], "--header must be like"),
        (["stripe", "--header", f"X y: {SECRET}"], "--header must be like"),
        (["stripe", "--id", ""], "must not be empty"),
        (["github", "--id", "\u00e9"], "id must be printable ASCII"),
        (["standard-webhooks", "--secret", "!"], "must be whsec_ followed by base64"),
        (["adyen"], "must be hexadecimal digits"),
        (["discord"], "must be an Ed25519 private key"),
        (["sendgrid"], "must be an ECDSA private key"),
        (["stripe", "--secret", ""], "a secret must not be empty"),
        (["gitlab", "--secret", "an-older-token", "--stale"], "signs no time this way"),
        (["gitlab", "--secret", "an-older-token", "--tamper"], "signs nothing of the body"),
    ],
)
def test_a_command_that_cannot_work_says_what_to_write_instead(
    arguments: list[str], told: str, capsys: Output
) -> None:
    assert main(["deliver", "--secret", SECRET, *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert told in output.err
    assert output.err.count("\n") == 1
    assert SECRET not in output.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["stripe", "--duplicate", "0"],
        ["stripe", "--duplicate", "x"],
        ["stripe", "--concurrent", "1001"],
        ["stripe", "--duplicate", "2", "--concurrent", "2"],
        ["stripe", "--tamper", "--stale"],
        ["stripe", "--timeout", "0"],
        ["stripe", "--timeout", "nan"],
        ["stripe", "--timeout", "soon"],
        ["stripe", "--secrte", SECRET],
        ["stripe", f"--secrte={SECRET}"],
        ["stripe", NOBODY, SECRET],
    ],
)
def test_what_argparse_refuses_shows_no_secret_either(arguments: list[str], capsys: Output) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["deliver", "--secret", SECRET, *arguments])
    output = capsys.readouterr()
    assert output.err
    assert SECRET not in output.out + output.err


def test_a_secret_before_the_command_is_not_repeated(capsys: Output) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--secret", SECRET, "deliver", "stripe"])
    assert SECRET not in capsys.readouterr().err


@pytest.mark.parametrize("provider", mostly_wide(PROVIDERS, shown="stripe".__eq__))
def test_without_a_secret_and_a_terminal_its_form_and_its_variable_are_named(
    provider: str,
) -> None:
    ran = run_forked(
        [sys.executable, "-m", "duly", "deliver", provider, NOBODY], stdin=subprocess.DEVNULL
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"duly: which secret? {provider_named(provider).title} signs with")
    name = provider.upper().replace("-", "_")
    assert re.search(rf"Set {name}_((WEBHOOK_)?SECRET|PRIVATE_KEY), or give --secret", ran.stderr)
    form = {"adyen": "hex", "discord": "Ed25519 private", "sendgrid": "ECDSA private"}
    assert form.get(provider, "whsec_" if keys(provider).sender[:3] == "whs" else "plain text") in (
        ran.stderr
    )


def test_a_receiver_that_repeats_the_secret_does_not_have_it_shown(capsys: Output) -> None:
    token = "an-older-token-of-gitlab"
    with receiving(
        lambda seen: told(200, status=f"hi {seen.header('X-Gitlab-Token')}", reason=f"is {token}")
    ) as receiver:
        for more in ([], ["--json"]):
            assert main(["deliver", "gitlab", receiver.url, "--secret", token, *more]) == 0
    output = capsys.readouterr()
    assert token not in output.out + output.err
    assert output.out.count("hi ***") == 3  # in the line; in the delivery and the counts


def test_a_file_that_is_not_there_is_one_line(capsys: Output) -> None:
    assert send(NOBODY, "--body", "/nowhere/event.json") == 2
    told = "duly: /nowhere/event.json cannot be read: No such file or directory\n"
    assert capsys.readouterr().err == told
