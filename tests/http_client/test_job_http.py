"""``job.http``: a call that changes something is named, and carries the same key every time."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import duly
from duly import Egress
from duly.errors import EgressRefused, UsageError
from tests.http_client.callers import COLOURS, in_a_job
from tests.http_client.villains import Connection, Den, answers_every_request, living

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.parametrize("colour", COLOURS)
KEY = "idempotency-key"
AT_ONCE = duly.Backoff(first=timedelta(0))
UNSAFE = ["POST", "PUT", "PATCH", "DELETE", "PROPFIND", "post", "CONNECT"]


@pytest.fixture
def den() -> Iterator[Den]:
    with living(answers_every_request) as made:
        yield made


@pytest.fixture
def egress(den: Den) -> Egress:
    return Egress(allow=[den.origin])


def each(colour: str, act: Callable[[Any], list[Any]]) -> Callable[[Any], Any]:
    """Make one call after another; ``act`` returns what makes each."""

    def blocking(http: Any) -> list[Any]:
        return [make() for make in act(http)]

    async def awaited(http: Any) -> list[Any]:
        return [await make() for make in act(http)]

    return blocking if colour == "sync" else awaited


@pytest.mark.parametrize("method", UNSAFE)
def test_an_unsafe_call_without_a_name_is_refused_with_the_reason(
    colour: str, method: str, den: Den, egress: Egress
) -> None:
    ran = in_a_job(colour, egress, lambda http: http.request(method, den.url))

    assert isinstance(ran.problem, UsageError)
    assert not isinstance(ran.problem, EgressRefused)
    assert "may change something" in str(ran.problem)
    assert 'key="charge"' in str(ran.problem)
    assert den.connections == []


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_each_unsafe_verb_takes_the_name_of_the_call(
    colour: str, method: str, den: Den, egress: Egress
) -> None:
    ran = in_a_job(colour, egress, lambda http: getattr(http, method)(den.url, key="charge"))

    assert ran.problem is None
    [request] = den.requests
    assert request.method == method.upper()
    assert request.headers[KEY] == ran.key


def test_request_takes_the_name_of_the_call(colour: str, den: Den, egress: Egress) -> None:
    ran = in_a_job(
        colour, egress, lambda http: http.request("POST", den.url, key="charge", json={"n": 1})
    )

    assert ran.problem is None
    [request] = den.requests
    assert request.headers[KEY] == ran.key
    assert request.body == b'{"n":1}'


def test_stream_takes_the_name_of_the_call(colour: str, den: Den, egress: Egress) -> None:
    def blocking(http: Any) -> bytes:
        with http.stream("POST", den.url, key="charge") as response:
            return b"".join(response.iter_bytes())

    async def awaited(http: Any) -> bytes:
        async with http.stream("POST", den.url, key="charge") as response:
            return b"".join([part async for part in response.aiter_bytes()])

    ran = in_a_job(colour, egress, blocking if colour == "sync" else awaited)

    assert ran.result == b"ok"
    assert den.requests[0].headers[KEY] == ran.key


@pytest.mark.parametrize("method", ["get", "head", "options"])
def test_a_safe_call_needs_no_name_and_carries_no_key(
    colour: str, method: str, den: Den, egress: Egress
) -> None:
    ran = in_a_job(colour, egress, lambda http: getattr(http, method)(den.url))

    assert ran.problem is None
    assert KEY not in den.requests[0].headers


def test_the_key_of_a_call_is_the_same_in_every_attempt_and_the_jobs_own(
    colour: str, den: Den, egress: Egress
) -> None:
    app = duly.Duly("memory:", egress=egress)
    keys: list[str] = []

    @app.job(name="blocking", attempts=3, backoff=AT_ONCE)
    def blocking(job: Any) -> None:
        keys.append(job.key("charge"))
        job.http.post(den.url, key="charge", json={})
        raise RuntimeError("and again")

    @app.job(name="awaited", attempts=3, backoff=AT_ONCE)
    async def awaited(job: Any) -> None:
        keys.append(job.key("charge"))
        await job.http.post(den.url, key="charge", json={})
        raise RuntimeError("and again")

    app.enqueue("blocking" if colour == "sync" else "awaited")
    app.work()
    app.close()

    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert [request.headers[KEY] for request in den.requests] == keys


def test_two_names_have_two_keys_and_so_have_two_jobs(
    colour: str, den: Den, egress: Egress
) -> None:
    act = each(
        colour,
        lambda http: [
            lambda: http.post(den.url, key="charge"),
            lambda: http.post(den.url, key="refund"),
        ],
    )
    for _ in range(2):
        assert in_a_job(colour, egress, act).problem is None

    assert len({request.headers[KEY] for request in den.requests}) == 4


def test_a_header_of_the_callers_own_does_not_replace_the_key(
    colour: str, den: Den, egress: Egress
) -> None:
    ran = in_a_job(
        colour,
        egress,
        lambda http: http.post(den.url, key="charge", headers={"Idempotency-Key": "mine"}),
    )

    assert den.requests[0].headers[KEY] == ran.key


def test_the_same_call_may_be_repeated_under_its_name(
    colour: str, den: Den, egress: Egress
) -> None:
    act = each(colour, lambda http: [lambda: http.post(den.url, key="charge", json=1)] * 2)

    assert in_a_job(colour, egress, act).problem is None
    assert len({request.headers[KEY] for request in den.requests}) == 1


def test_another_call_under_the_same_name_is_refused(colour: str, den: Den, egress: Egress) -> None:
    act = each(
        colour,
        lambda http: [
            lambda: http.post(den.url, key="charge", json={"amount": 1}),
            lambda: http.post(den.url, key="charge", json={"amount": 2}),
        ],
    )
    ran = in_a_job(colour, egress, act)

    assert isinstance(ran.problem, UsageError)
    assert "a name of its own" in str(ran.problem)
    assert len(den.requests) == 1


def library(colour: str, url: str, *bodies: str, key: str | None) -> Callable[[Any], Any]:
    """A library built on httpx, which is given a transport of the job's."""

    def blocking(http: Any) -> list[int]:
        with httpx.Client(transport=http.transport(key=key)) as client:
            return [client.post(url, content=body).status_code for body in bodies]

    async def awaited(http: Any) -> list[int]:
        async with httpx.AsyncClient(transport=http.transport(key=key)) as client:
            return [(await client.post(url, content=body)).status_code for body in bodies]

    return blocking if colour == "sync" else awaited


def test_a_library_can_be_given_the_transport_of_one_call(
    colour: str, den: Den, egress: Egress
) -> None:
    # Libraries repeat a call by themselves; each repetition carries the key.
    ran = in_a_job(colour, egress, library(colour, den.url, "once", "once", key="charge"))

    assert ran.result == [200, 200]
    assert [request.headers[KEY] for request in den.requests] == [ran.key] * 2


def test_a_second_call_through_the_transport_of_one_call_is_refused(
    colour: str, den: Den, egress: Egress
) -> None:
    ran = in_a_job(colour, egress, library(colour, den.url, "one", "another", key="charge"))

    assert isinstance(ran.problem, UsageError)
    assert "'charge'" in str(ran.problem)
    assert len(den.requests) == 1


def test_two_transports_of_one_name_are_for_one_call_too(
    colour: str, den: Den, egress: Egress
) -> None:
    def blocking(http: Any) -> None:
        for body in ("one", "another"):
            library(colour, den.url, body, key="charge")(http)

    async def awaited(http: Any) -> None:
        for body in ("one", "another"):
            await library(colour, den.url, body, key="charge")(http)

    ran = in_a_job(colour, egress, blocking if colour == "sync" else awaited)

    assert isinstance(ran.problem, UsageError)
    assert len(den.requests) == 1


def test_a_transport_without_a_name_is_for_safe_calls(
    colour: str, den: Den, egress: Egress
) -> None:
    ran = in_a_job(colour, egress, library(colour, den.url, "one", key=None))

    assert isinstance(ran.problem, UsageError)
    assert den.connections == []


def test_a_library_that_closes_its_client_leaves_the_connections_of_others(
    colour: str, den: Den, egress: Egress
) -> None:
    def blocking(http: Any) -> None:
        for name in ("charge", "refund"):
            library(colour, den.url, name, key=name)(http)
        http.get(den.url)

    async def awaited(http: Any) -> None:
        for name in ("charge", "refund"):
            await library(colour, den.url, name, key=name)(http)
        await http.get(den.url)

    ran = in_a_job(colour, egress, blocking if colour == "sync" else awaited)

    assert ran.problem is None
    assert len(den.requests) == 3
    assert len(den.connections) == 1


def test_a_transaction_cannot_contain_a_call_that_changes_something(
    colour: str, den: Den, egress: Egress
) -> None:
    app = duly.Duly("memory:", egress=egress)
    problems: list[Exception] = []
    answers: list[int] = []

    @app.job(name="sync", attempts=1)
    def blocking(job: Any, tx: Any) -> None:
        answers.append(job.http.get(den.url).status_code)
        try:
            job.http.post(den.url, key="charge")
        except UsageError as problem:
            problems.append(problem)

    @app.job(name="async", attempts=1)
    async def awaited(job: Any, tx: Any) -> None:
        answers.append((await job.http.get(den.url)).status_code)
        try:
            await job.http.post(den.url, key="charge")
        except UsageError as problem:
            problems.append(problem)

    app.enqueue(colour)
    app.work()
    app.close()

    [problem] = problems
    assert "a transaction cannot contain a call" in str(problem)
    assert "tx.send" in str(problem)
    assert answers == [200]  # what changes nothing is free
    assert [request.method for request in den.requests] == ["GET"]


def test_a_call_of_a_job_never_asks_for_a_packed_answer(
    colour: str, den: Den, egress: Egress
) -> None:
    in_a_job(colour, egress, lambda http: http.get(den.url, headers={"Accept-Encoding": "gzip"}))

    assert den.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    "url", ["/hook", "http://127.0.0.1", "https://\uff11\uff12\uff17.0.0.1/", "unix:/x"]
)
def test_a_bad_address_is_an_error_and_no_call(colour: str, url: str, den: Den) -> None:
    ran = in_a_job(colour, Egress(), lambda http: http.get(url))

    assert isinstance(ran.problem, EgressRefused | httpx.InvalidURL | httpx.UnsupportedProtocol)


def test_a_user_in_the_address_is_refused_and_not_sent(
    colour: str, den: Den, egress: Egress
) -> None:
    url = den.url.replace("http://", "http://ann:secret@")
    ran = in_a_job(colour, egress, lambda http: http.get(url))

    assert isinstance(ran.problem, EgressRefused)
    assert "secret" not in str(ran.problem)
    assert den.connections == []


def test_the_whole_call_has_one_deadline(colour: str) -> None:
    def trickle(connection: Connection) -> None:
        connection.trickle(b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 10_000)

    with living(trickle) as den:
        egress = Egress(allow=[den.origin], deadline=timedelta(seconds=0.5))
        ran = in_a_job(colour, egress, lambda http: http.get(den.url, timeout=None))

    assert isinstance(ran.problem, httpx.TimeoutException)
    assert 1 <= den.written < 200


def test_a_longer_timeout_of_the_callers_own_does_not_lengthen_the_deadline(colour: str) -> None:
    with living(lambda connection: connection.wait()) as den:
        egress = Egress(allow=[den.origin], deadline=timedelta(seconds=0.3))
        ran = in_a_job(colour, egress, lambda http: http.get(den.url, timeout=60))

    assert isinstance(ran.problem, httpx.ReadTimeout)
