"""Outgoing calls are recorded and answered here; what cannot be is refused, and nothing leaves."""

from __future__ import annotations

import asyncio
import http.client
import json
import smtplib
import socket
import urllib.request
from contextlib import contextmanager, nullcontext
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import requests

import duly
from duly.prove.calls import read_calls
from duly.prove.recording import CannedAnswers, NetworkGuard, Recorder, recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

URL = "https://bank.example:8443/charges?to=ada"
ANSWERS = {"POST https://bank.example*": {"status": 201, "json": {"id": "ch_1"}}}


@contextmanager
def recorded(path: Path, allowed: frozenset[tuple[str, int]] = frozenset()) -> Iterator[None]:
    recorder, net = Recorder(lambda _: nullcontext()), NetworkGuard()
    recorder.begin(path, CannedAnswers(ANSWERS))
    net.close(allowed)
    with recording(recorder, net):
        yield


def by_urllib(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
    asked = urllib.request.Request(url, body, headers)
    with urllib.request.urlopen(asked) as answer:
        return answer.status, json.loads(answer.read())


def by_http_client(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
    connection = http.client.HTTPSConnection("bank.example", 8443)
    path = url.partition("8443")[2]
    connection.request("POST", path, iter([body[:3], body[3:]]), headers, encode_chunked=True)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def by_requests(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
    with requests.Session() as session:
        session.post(url, body, headers=headers, timeout=5)  # the second uses the same connection
        answer = session.post(url, body, headers=headers, timeout=5)
    return answer.status_code, answer.json()


def by_httpx(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
    answer = httpx.post(url, content=body, headers=headers)
    return answer.status_code, answer.json()


def by_httpx_awaited(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
    async def call() -> httpx.Response:
        async with httpx.AsyncClient() as client:
            return await client.post(url, content=body, headers=headers)

    answer = asyncio.run(call())
    return answer.status_code, answer.json()


@pytest.mark.parametrize(
    "call", [by_urllib, by_http_client, by_requests, by_httpx, by_httpx_awaited]
)
def test_a_call_is_recorded_with_its_key_and_answered_as_asked(
    call: Callable[..., tuple[int, Any]], tmp_path: Path
) -> None:
    headers = {"Idempotency-Key": "k1", "Authorization": "Bearer secret"}
    with recorded(tmp_path / "calls"):
        answer = call(URL, b'{"amount": 20}', headers)

    assert answer == (201, {"id": "ch_1"})
    made = read_calls(tmp_path / "calls")
    assert {(one.method, one.url, one.body, one.key) for one in made} == {
        ("POST", URL, '{"amount": 20}', "k1")
    }
    assert "secret" not in (tmp_path / "calls").read_text()


def unread(body: Any, headers: dict[str, str], *, chunked: bool = False) -> None:
    connection = http.client.HTTPSConnection("bank.example", 8443)
    path = URL.partition("8443")[2]
    connection.request("POST", path, body, headers, encode_chunked=chunked)
    connection.close()


def test_a_call_whose_answer_nobody_reads_is_recorded(tmp_path: Path) -> None:
    with recorded(tmp_path / "calls"):
        unread(b'{"n": 1}', {})
        unread(iter([b'{"n"', b": 2}"]), {}, chunked=True)
        unread(b"", {})
        unread(b'{"n": 3}', {"Content-Length": "9"})  # of which the other side waits for the rest
        forgotten = http.client.HTTPSConnection("bank.example", 8443)
        forgotten.request("DELETE", "/charges")

        assert [(one.method, one.body) for one in read_calls(tmp_path / "calls")] == [
            ("POST", '{"n": 1}'),
            ("POST", '{"n": 2}'),
            ("POST", ""),
            ("DELETE", ""),
        ]


def test_a_body_whose_length_nobody_said_is_recorded_when_it_is_over(tmp_path: Path) -> None:
    with recorded(tmp_path / "calls"):
        for read in (True, False):
            connection = http.client.HTTPSConnection("bank.example", 8443)
            connection.putrequest("POST", "/charges")
            connection.endheaders()
            connection.send(b'{"n": 1}')
            if read:
                assert connection.getresponse().status == 201
            connection.close()

    assert [one.body for one in read_calls(tmp_path / "calls")] == ['{"n": 1}', '{"n": 1}']


@pytest.mark.parametrize("library", ["urllib", "requests", "http.client"])
def test_a_call_through_a_proxy_is_told_by_where_it_goes(library: str, tmp_path: Path) -> None:
    proxies = {"https": "http://proxy.example:3128"}
    with recorded(tmp_path / "calls"):
        if library == "urllib":
            handler = urllib.request.ProxyHandler(proxies)
            urllib.request.build_opener(handler).open(URL, b"{}").close()
        elif library == "requests":
            requests.post(URL, b"{}", proxies=proxies, timeout=5)
        else:
            connection = http.client.HTTPSConnection("proxy.example", 3128)
            connection.set_tunnel("bank.example", 8443)
            connection.request("POST", URL.partition("8443")[2], b"{}")
            connection.close()

    [made] = read_calls(tmp_path / "calls")
    assert made.url == URL


def sent(server: smtplib.SMTP, text: str = "Hooray!\n.\nBye") -> None:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "shop@shop.example", "ada@example.com", "On its way"
    mail.set_content(text)
    server.send_message(mail)


def test_an_e_mail_is_recorded_also_behind_tls_and_a_login(tmp_path: Path) -> None:
    with recorded(tmp_path / "calls"):
        with smtplib.SMTP("mail.example", 587) as server:
            server.starttls()
            server.login("shop", "secret")
            sent(server)
        with smtplib.SMTP_SSL("mail.example") as server:
            sent(server)

    first, second = read_calls(tmp_path / "calls")
    assert (first.url, first.medium) == ("mailto:ada@example.com", "mail")
    assert first.content == second.content
    assert first.content["Subject"] == "On its way"
    assert first.content["text"] == "Hooray!\n.\nBye"


def test_a_message_of_the_outbox_is_recorded_under_its_id(tmp_path: Path) -> None:
    app = duly.Duly(f"sqlite:///{tmp_path / 'shop.db'}")
    app.transport("mail")(lambda message: pytest.fail(f"{message} must not be sent"))
    ids = [
        app.send("https://books.example/", json={"n": 1}).id,
        app.send("mail:ada@example.com", data="Hooray!").id,
    ]
    with recorded(tmp_path / "calls"):
        relayed = app.relay()
    app.close()

    assert relayed.sent == 2
    made = read_calls(tmp_path / "calls")
    assert sorted(str(one.key) for one in made) == sorted(ids)
    assert {one.url for one in made} == {"https://books.example/", "mail:ada@example.com"}


def test_job_http_is_recorded_with_its_key_and_the_guard_stays_in_front(tmp_path: Path) -> None:
    app = duly.Duly(f"sqlite:///{tmp_path / 'shop.db'}")
    refused: list[Exception] = []

    @app.job(name="charge")
    def charge(job: duly.Job) -> None:
        job.http.post("https://bank.example/charges", key="charge", json={})
        try:
            job.http.post("http://127.0.0.1/", key="inside", json={})
        except duly.errors.EgressRefused as problem:
            refused.append(problem)

    app.enqueue("charge")
    with recorded(tmp_path / "calls"):
        app.work()
    app.close()

    [made] = read_calls(tmp_path / "calls")
    assert made.key is not None
    assert len(refused) == 1


@pytest.mark.parametrize("address", [("127.0.0.1", 6379), ("redis.example", 6379)])
def test_what_cannot_be_recorded_does_not_go_out(address: tuple[str, int], tmp_path: Path) -> None:
    with recorded(tmp_path / "calls"), pytest.raises(OSError, match="--let-through") as refused:
        socket.create_connection(address, timeout=5)

    assert f"{address[0]}:6379" in str(refused.value)


def test_an_address_that_was_named_is_let_through(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        named = frozenset({("localhost", port)})
        with recorded(tmp_path / "calls", named):
            socket.create_connection(("localhost", port), timeout=5).close()


@pytest.mark.parametrize(
    "given",
    [[], {"POST https://x": 200}, {"https://x": {"status": 99}}, {"https://x": {"code": 1}}],
)
def test_answers_that_cannot_be_read_are_refused(given: object) -> None:
    with pytest.raises(duly.errors.UsageError):
        CannedAnswers(given)
