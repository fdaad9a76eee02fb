"""No socket is opened to an address that is refused: seen by a hook of the interpreter."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly import Egress
from duly.errors import EgressRefused
from tests.http_client.callers import COLOURS, call, in_a_job, problems, relaying, sent
from tests.http_client.names import Names, as_the_system
from tests.http_client.ranges import NOTORIOUS
from tests.http_client.villains import answers_every_request, living
from tests.http_client.wires import dials

if TYPE_CHECKING:
    import httpx

# By literal, and behind a name.
LITERALS = [f"https://[{one}]/" if ":" in one else f"https://{one}/" for one in NOTORIOUS]
OTHERS = ["http://127.0.0.1/", "https://127.1/", "https://2130706433/", "https://127.0.0.1:6379/"]


def behind_a_name(monkeypatch: pytest.MonkeyPatch, address: str) -> Names:
    names = Names(shop_example=[[address]])
    as_the_system(monkeypatch, names)
    return names


@pytest.mark.parametrize("colour", COLOURS)
def test_a_transport_dials_no_refused_address(colour: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = {f"shop{number}_example": [[one]] for number, one in enumerate(NOTORIOUS)}
    names = Names(**hosts)
    as_the_system(monkeypatch, names)
    behind_names = [f"https://{host.replace('_', '.')}/" for host in hosts]
    with dials() as seen:
        found = problems(colour, Egress(), [*LITERALS, *OTHERS, *behind_names])

    assert {type(one) for one in found} == {EgressRefused}
    assert len(names.asked) == len(NOTORIOUS)
    assert seen == []


@pytest.mark.parametrize("colour", COLOURS)
def test_a_job_dials_no_refused_address(colour: str, monkeypatch: pytest.MonkeyPatch) -> None:
    behind_a_name(monkeypatch, "169.254.169.254")
    urls = [*LITERALS[:8], *OTHERS, "https://shop.example/"]
    problems: list[BaseException] = []

    def blocking(http: httpx.Client) -> None:
        for url in urls:
            with pytest.raises(EgressRefused) as told:
                http.get(url)
            problems.append(told.value)

    async def awaited(http: httpx.AsyncClient) -> None:
        for url in urls:
            with pytest.raises(EgressRefused) as told:
                await http.get(url)
            problems.append(told.value)

    with dials() as seen:
        act: Any = blocking if colour == "sync" else awaited
        assert in_a_job(colour, Egress(), act).problem is None

    assert len(problems) == len(urls)
    assert seen == []


def test_a_message_to_a_refused_address_is_not_even_staged() -> None:
    app = duly.Duly("memory:")
    for url in (*LITERALS, *OTHERS):
        with pytest.raises(EgressRefused):
            app.send(url, json={})


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::1", "64:ff9b::7f00:1"])
def test_a_message_whose_name_leads_to_a_refused_address_is_dead_with_the_reason(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = behind_a_name(monkeypatch, address)
    with dials() as seen:
        found = sent(Egress(), "https://shop.example/hook")

    assert found.outcome == "dead"
    assert f"https://shop.example leads to {address}" in found.reason
    assert names.asked == ["shop.example"]
    assert seen == []


def test_what_another_guard_let_in_is_left_to_it_and_dialled_by_nobody_else(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    loose = duly.Duly(sqlite_url, egress=Egress(allow=[url[:-1] for url in LITERALS]))
    for url in LITERALS:
        loose.send(url, json={})
    strict = duly.Duly(sqlite_url)
    with dials() as seen:
        relayed = asyncio.run(relaying(strict))

    assert (relayed.sent, relayed.dead) == (0, 0)
    assert relayed.retried >= len(LITERALS)
    assert caplog.text.count("leads to") >= len(LITERALS)
    assert seen == []


def test_whoever_listens_at_a_refused_address_hears_nothing_of_any_relay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever event loop a relay runs in; the second half shows that there is somebody."""
    behind_a_name(monkeypatch, "127.0.0.1")
    with living(answers_every_request) as den:
        there = f"shop.example:{den.port}"
        refused = duly.Duly("memory:", egress=Egress(ports=(den.port,)))
        refused.send(f"https://{there}", json={})
        assert refused.relay().dead == 1
        assert den.connections == []

        allowed = duly.Duly("memory:", egress=Egress(allow=[f"http://{there}"]))
        allowed.send(f"http://{there}", json={})
        assert allowed.relay().sent == 1


def test_the_hook_sees_what_is_let_out() -> None:
    """Without this the tests above would pass with a hook that hears nothing."""
    with living(answers_every_request) as den, dials() as seen:
        egress = Egress(allow=[den.origin])
        for colour in COLOURS:
            call(colour, egress, den.url)
            in_a_job(colour, egress, lambda http: http.get(den.url))
        sent(egress, den.url)

    assert seen == [("127.0.0.1", den.port)] * 5
