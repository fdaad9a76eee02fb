"""A receiver cannot send us on to somewhere else."""

from __future__ import annotations

import httpx
import pytest

from duly import Egress
from duly.errors import EgressRefused
from tests.http_client.callers import COLOURS, in_a_job, sent
from tests.http_client.villains import OK, Connection, answers_every_request, living, redirecting
from tests.http_client.wires import dials

INSIDE = [
    "http://169.254.169.254/latest/meta-data/",
    "https://127.0.0.1/",
    "https://[::1]/",
    "https://[::ffff:169.254.169.254]/",
    "https://2130706433/",
    "https://user@example.com/",
    "http://example.com/",
]
STATUSES = [301, 302, 303, 307, 308]


@pytest.mark.parametrize("status", STATUSES)
def test_a_redirected_message_is_dead_and_goes_nowhere_else(status: int) -> None:
    with (
        living(answers_every_request) as secret,
        living(redirecting(secret.url, status)) as den,
        dials() as seen,
    ):
        # Even to where messages may go: what was signed for one address is for that one.
        found = sent(Egress(allow=[den.origin, secret.origin]), den.url)

    assert found.outcome == "dead"
    assert f"answered {status}, a redirect to {secret.url}" in found.reason
    assert secret.requests == []
    assert {port for _, port in seen} == {den.port}


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("where", INSIDE)
def test_a_job_is_given_the_redirect_and_not_what_is_behind_it(colour: str, where: str) -> None:
    with living(redirecting(where)) as den, dials() as seen:
        ran = in_a_job(colour, Egress(allow=[den.origin]), lambda http: http.get(den.url))

    assert ran.problem is None
    assert ran.result.status_code == 302
    assert ran.result.headers["location"] == where
    assert {port for _, port in seen} == {den.port}


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("where", INSIDE)
def test_a_job_that_follows_is_refused_at_the_hop_inside(colour: str, where: str) -> None:
    with living(redirecting(where)) as den, dials() as seen:
        ran = in_a_job(
            colour,
            Egress(allow=[den.origin]),
            lambda http: http.get(den.url, follow_redirects=True),
        )

    assert isinstance(ran.problem, EgressRefused)
    assert {port for _, port in seen} == {den.port}


@pytest.mark.parametrize("colour", COLOURS)
def test_a_job_that_follows_gets_to_where_it_may_go(colour: str) -> None:
    def answer(connection: Connection) -> None:
        if len(connection.requests) == 1:
            redirecting("/elsewhere#part")(connection)
        else:
            connection.write(OK)

    with living(answer) as den:
        ran = in_a_job(
            colour,
            Egress(allow=[den.origin]),
            lambda http: http.get(den.url, follow_redirects=True),
        )

    assert ran.result.status_code == 200
    assert [one.line.split(" ")[1] for one in den.requests] == ["/hook", "/elsewhere"]


@pytest.mark.parametrize("colour", COLOURS)
def test_redirects_without_end_end(colour: str) -> None:
    with living(redirecting("/hook")) as den:
        ran = in_a_job(
            colour,
            Egress(allow=[den.origin]),
            lambda http: http.get(den.url, follow_redirects=True),
        )

    assert isinstance(ran.problem, httpx.TooManyRedirects)
