"""TLS to a checked address is with the host that was named, and with nobody else."""

from __future__ import annotations

import asyncio
import gc
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import httpx
import pytest

from duly import Egress
from duly.http_client.async_transport import AsyncGuardedTransport
from tests.http_client.callers import COLOURS, call, in_a_job, sent
from tests.http_client.certificates import DAY, Authority
from tests.http_client.names import Names, as_the_system
from tests.http_client.villains import Den, answers_every_request, living, never_answers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """One that is trusted."""
    made = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.path))
    return made


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """Every look-up of these tests ends on this machine."""
    made = Names(shop_example=[["127.0.0.1"]])
    as_the_system(monkeypatch, made)
    return made


@pytest.mark.parametrize("colour", COLOURS)
def test_the_certificate_and_the_server_name_are_those_of_the_host(
    colour: str, authority: Authority
) -> None:
    with living(answers_every_request, tls=authority.server("shop.example")) as den:
        url = f"https://shop.example:{den.port}"
        [response] = call(colour, Egress(allow=[url]), f"{url}/hook")

    assert response.status_code == 200
    assert den.indicated == ["shop.example"]
    assert den.requests[0].headers["host"] == f"shop.example:{den.port}"


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("other", ["other.example", "127.0.0.1", "*.shop.example"])
def test_a_certificate_of_another_host_is_refused(
    colour: str, other: str, authority: Authority
) -> None:
    with living(answers_every_request, tls=authority.server(other)) as den:
        url = f"https://shop.example:{den.port}"
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            call(colour, Egress(allow=[url]), f"{url}/hook")

    assert den.requests == []


@pytest.mark.parametrize("colour", COLOURS)
def test_a_certificate_that_is_over_is_refused(colour: str, authority: Authority) -> None:
    with living(answers_every_request, tls=authority.server("shop.example", until=-DAY)) as den:
        url = f"https://shop.example:{den.port}"
        with pytest.raises(httpx.ConnectError, match="certificate has expired"):
            call(colour, Egress(allow=[url]), f"{url}/hook")

    assert den.requests == []


@pytest.mark.parametrize("colour", COLOURS)
def test_a_certificate_that_nobody_vouches_for_is_refused(
    colour: str, authority: Authority, tmp_path: Path
) -> None:
    with living(answers_every_request, tls=Authority(tmp_path).server("shop.example")) as den:
        url = f"https://shop.example:{den.port}"
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            call(colour, Egress(allow=[url]), f"{url}/hook")

    assert den.requests == []


@pytest.mark.parametrize("colour", COLOURS)
def test_a_call_cannot_ask_for_the_certificate_of_another(
    colour: str, authority: Authority
) -> None:
    with living(answers_every_request, tls=authority.server("other.example")) as den:
        url = f"https://shop.example:{den.port}"
        ran = in_a_job(
            colour,
            Egress(allow=[url]),
            lambda http: http.get(url, extensions={"sni_hostname": "other.example"}),
        )

    assert isinstance(ran.problem, httpx.ConnectError)
    assert den.requests == []


@pytest.mark.parametrize("colour", COLOURS)
def test_a_handshake_that_never_ends_does_with_the_deadline(
    colour: str, authority: Authority
) -> None:
    with living(never_answers, deaf=True) as den:
        url = f"https://shop.example:{den.port}"
        egress = Egress(allow=[url], deadline=timedelta(seconds=0.3))
        with pytest.raises(httpx.TimeoutException):
            call(colour, egress, f"{url}/hook")


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 5
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)


def test_a_handshake_that_is_given_up_leaves_no_connection_open(authority: Authority) -> None:
    async def give_up(guarded: AsyncGuardedTransport, url: str, den: Den) -> None:
        call = asyncio.create_task(guarded.handle_async_request(httpx.Request("GET", url)))
        await asyncio.to_thread(wait_until, lambda: bool(den.connections))
        call.cancel()
        await asyncio.wait([call])
        await asyncio.to_thread(wait_until, lambda: den.open == 0)
        await guarded.aclose()

    gc.disable()  # it would close what everybody has forgotten
    try:
        with living(never_answers, deaf=True) as den:
            url = f"https://shop.example:{den.port}"
            asyncio.run(give_up(AsyncGuardedTransport(Egress(allow=[url])), url, den))
            assert den.open == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("colour", COLOURS)
def test_a_receiver_that_speaks_no_tls_gets_nothing(colour: str, authority: Authority) -> None:
    with living(answers_every_request) as den:
        url = f"https://shop.example:{den.port}"
        egress = Egress(allow=[url], deadline=timedelta(seconds=0.5))
        with pytest.raises(httpx.TransportError):
            call(colour, egress, f"{url}/hook")

    assert den.requests == []


def test_a_relay_sends_under_the_name_of_the_host(authority: Authority) -> None:
    with living(answers_every_request, tls=authority.server("shop.example")) as den:
        url = f"https://shop.example:{den.port}"
        assert sent(Egress(allow=[url]), f"{url}/hook").outcome == "sent"

    assert den.indicated == ["shop.example"]
    assert den.requests[0].headers["host"] == f"shop.example:{den.port}"


def test_a_relay_tells_nothing_to_another_host(authority: Authority) -> None:
    with living(answers_every_request, tls=authority.server("other.example")) as den:
        url = f"https://shop.example:{den.port}"
        assert sent(Egress(allow=[url]), f"{url}/hook").outcome == "retried"

    assert den.requests == []


@pytest.mark.parametrize("colour", COLOURS)
def test_a_call_of_a_job_is_under_the_name_of_the_host(colour: str, authority: Authority) -> None:
    with living(answers_every_request, tls=authority.server("shop.example")) as den:
        url = f"https://shop.example:{den.port}"
        ran = in_a_job(colour, Egress(allow=[url]), lambda http: http.get(f"{url}/hook"))

    assert ran.result.status_code == 200
    assert den.indicated == ["shop.example"]
