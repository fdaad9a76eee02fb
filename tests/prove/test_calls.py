"""When two calls count as one, and what of them is compared."""

from __future__ import annotations

import json

import pytest

from duly.prove.call_diff import CallMasks
from duly.prove.calls import Call, changed_repeats, effective_calls

pytestmark = pytest.mark.slow

URL = "https://bank.example/charges"


def post(body: object = None, key: str | None = None, url: str = URL) -> Call:
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers["idempotency-key"] = key
    return Call("http", "POST", url, json.dumps(body), headers)


def labelled(body: str) -> Call:
    """A call by urllib without a type of its own."""
    headers = {"Content-type": "application/x-www-form-urlencoded"}
    return Call("http", "POST", URL, body, headers)


def test_two_calls_with_the_same_key_to_the_same_url_are_one() -> None:
    assert len(effective_calls([post(key="k"), post(key="k")])) == 1


@pytest.mark.parametrize(
    "body", [{"idempotency_key": "k"}, {"variables": [{"idempotencyKey": "k"}]}]
)
def test_a_key_is_known_by_its_name_in_the_body(body: object) -> None:
    assert len(effective_calls([post(body), post(body)])) == 1


@pytest.mark.parametrize(
    "calls",
    [
        [post(), post()],
        [post({"idempotency_key": "a"}), post({"idempotency_key": "b"})],
        [post(key="a"), post(key="b")],
        [post(key="k"), post(key="k", url="https://bank.example/refunds")],
    ],
)
def test_calls_that_the_other_side_cannot_know_again_are_two(calls: list[Call]) -> None:
    assert len(effective_calls(calls)) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"amount": 20}', '{"amount": 40}'),
        ("item=1&item=2", "item=2"),
        ("urgent=&id=1", "id=1"),
        ("name=%ff", "name=%fe"),
        ("a plain text", "another text"),
        ("&", "&&"),
    ],
)
def test_nothing_of_a_body_is_lost_because_it_is_labelled_as_a_form(one: str, other: str) -> None:
    assert labelled(one).content != labelled(other).content


@pytest.mark.parametrize(("one", "other"), [("to=1&to=2", "to=2"), ("urgent&id=1", "id=1")])
def test_nothing_of_a_query_is_lost(one: str, other: str) -> None:
    first, second = (Call("http", "POST", f"{URL}?{query}") for query in (one, other))
    assert first.content != second.content


def test_a_key_is_known_in_a_body_that_urllib_has_labelled() -> None:
    twice = [labelled('{"idempotency_key": "k"}'), labelled('{"idempotency_key": "k"}')]
    assert len(effective_calls(twice)) == 1
    assert labelled("idempotency_key=k&amount=20").key == "k"


def test_a_repeat_under_one_key_with_another_body_is_named() -> None:
    assert changed_repeats([post({"n": 1}, "k"), post({"n": 1}, "k"), post({"n": 2})]) == []
    assert changed_repeats([post({"n": 1}, "k"), post({"n": 2}, "k")]) == [f"POST {URL}"]


def test_reading_is_no_effect_and_the_same_put_is_one() -> None:
    got, put = Call("http", "GET", URL), Call("http", "PUT", URL, "{}")
    assert effective_calls([got, got, put, put]) == [put]
    assert len(effective_calls([put, Call("http", "PUT", f"{URL}/2", "{}")])) == 2


def test_of_what_sets_an_address_the_last_counts() -> None:
    first, second = (Call("http", "PUT", URL, json.dumps({"n": n})) for n in (1, 2))
    gone = Call("http", "DELETE", URL)
    assert effective_calls([first, second, first]) == [first]
    assert effective_calls([second, gone]) == [gone]
    known = CallMasks([first, second], [[first, second]])
    assert known.first_difference([first, second], [first, first, second]) is None
    found = known.first_difference([first, second], [second, first])
    assert found is not None
    assert (found.call, found.instead) == (first, second)


def test_a_message_is_known_by_its_id() -> None:
    one, other = (Call("message", "POST", URL, "{}", id=id) for id in ("m1", "m2"))
    assert len(effective_calls([one, one, other])) == 2


def mail(id: str, text: str = "Hooray!") -> Call:
    told = f"To: ada@example.com\nDate: {id}\nMessage-ID: <{id}@shop>\nSubject: Sent\n\n{text}\n"
    return Call("mail", "SEND", "mailto:ada@example.com", told)


def test_an_e_mail_is_compared_without_what_is_new_in_each_copy() -> None:
    single = [mail("1")]
    known = CallMasks(single, [[mail("2")]])
    assert known.first_difference(single, [mail("3")]) is None
    found = known.first_difference(single, [mail("3"), mail("4")])
    assert found is not None
    assert (found.expected, found.actual) == (1, 2)
    assert known.first_difference(single, [mail("3", "Sorry!")]) is not None


def test_what_differs_between_two_single_runs_is_not_compared() -> None:
    one, other = [post({"n": 1, "ref": "a"})], [post({"n": 1, "ref": "b"})]
    known = CallMasks(one, [other])
    assert known.first_difference(one, [post({"n": 1, "ref": "c"})]) is None
    assert known.first_difference(one, [post({"n": 2, "ref": "c"})]) is not None
    assert known.describe_hidden() == [f"body.ref of POST {URL}"]


def test_an_address_that_is_new_each_time_is_told_by_its_host() -> None:
    one, other = [post(url=f"{URL}/1")], [post(url=f"{URL}/2")]
    known = CallMasks(one, [other])
    assert known.first_difference(one, [post(url=f"{URL}/3")]) is None
    assert known.first_difference(one, [post(url="https://other.example/1")]) is not None
    assert known.describe_hidden() == [f"the address of POST {URL}/1"]


def test_a_call_that_was_not_made_is_a_difference() -> None:
    found = CallMasks([post()], [[post()]]).first_difference([post()], [])
    assert found is not None
    assert (found.expected, found.actual) == (1, 0)
