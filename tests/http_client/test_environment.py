"""What stands in the environment of a process decides nothing about where its calls go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from duly import Egress
from duly.errors import EgressRefused
from tests.http_client.callers import COLOURS, call, in_a_job, sent
from tests.http_client.villains import Den, answers_every_request, living
from tests.http_client.wires import dials

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Den]:
    """A proxy that the whole environment speaks of."""
    with living(answers_every_request) as den:
        for name in PROXIES:
            monkeypatch.setenv(name, den.origin)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(name, "nowhere.example")
        yield den


@pytest.fixture
def netrc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file of passwords, as curl and others read it."""
    path = tmp_path / ".netrc"
    path.write_text(
        "machine 127.0.0.1 login ann password secret\ndefault login ann password secret\n"
    )
    path.chmod(0o600)
    monkeypatch.setenv("NETRC", str(path))
    monkeypatch.setenv("HOME", str(tmp_path))


def test_a_client_of_httpx_would_go_through_the_proxy(proxy: Den) -> None:
    """Without this the tests below would pass in an environment that nobody reads."""
    with living(answers_every_request) as den, httpx.Client() as client:
        assert client.get(den.url).status_code == 200

    assert len(proxy.requests) == 1
    assert den.requests == []


@pytest.mark.parametrize("colour", COLOURS)
def test_no_call_goes_through_a_proxy_or_takes_a_password_along(
    colour: str, proxy: Den, netrc: None
) -> None:
    with living(answers_every_request) as den, dials() as seen:
        egress = Egress(allow=[den.origin])
        call(colour, egress, den.url)
        ran = in_a_job(colour, egress, lambda http: http.get(den.url))

    assert ran.result.status_code == 200
    assert {port for _, port in seen} == {den.port}
    assert proxy.requests == []
    assert len(den.requests) == 2
    assert all("authorization" not in one.headers for one in den.requests)


def test_no_message_goes_through_a_proxy_or_takes_a_password_along(proxy: Den, netrc: None) -> None:
    with living(answers_every_request) as den, dials() as seen:
        assert sent(Egress(allow=[den.origin]), den.url).outcome == "sent"

    assert {port for _, port in seen} == {den.port}
    assert proxy.requests == []
    assert "authorization" not in den.requests[0].headers


@pytest.mark.parametrize("colour", COLOURS)
def test_a_refused_address_is_not_asked_of_a_proxy(colour: str, proxy: Den) -> None:
    with dials() as seen:
        ran = in_a_job(colour, Egress(), lambda http: http.get("https://169.254.169.254/"))
        assert isinstance(ran.problem, EgressRefused)

    assert seen == []


@pytest.mark.parametrize("colour", COLOURS)
def test_a_library_given_the_transport_uses_no_proxy_either(colour: str, proxy: Den) -> None:
    def blocking(http: object) -> int:
        with httpx.Client(transport=http.transport()) as client:  # type: ignore[attr-defined]
            return client.get(den.url).status_code

    async def awaited(http: object) -> int:
        async with httpx.AsyncClient(transport=http.transport()) as client:  # type: ignore[attr-defined]
            return (await client.get(den.url)).status_code

    with living(answers_every_request) as den:
        ran = in_a_job(
            colour, Egress(allow=[den.origin]), blocking if colour == "sync" else awaited
        )

    assert ran.result == 200
    assert proxy.requests == []
